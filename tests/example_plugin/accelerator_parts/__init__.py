"""One part of every kind that codesign is open to."""
