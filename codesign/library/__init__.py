"""What `import codesign` offers: functions from plain inputs to results that print, plot and become tables."""
