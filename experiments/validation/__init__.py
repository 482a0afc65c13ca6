"""Predictions of the timing tier beside recorded hardware and simulators, set by set (docs/results/validation.md)."""
