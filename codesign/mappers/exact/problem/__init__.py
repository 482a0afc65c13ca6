"""The mapping problem as the exact search reads it: tiles, spatial factors, charges and closed-form bounds."""
