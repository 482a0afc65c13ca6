"""MAESTRO's files (`.m`), and its closed forms for area, power and energy."""
