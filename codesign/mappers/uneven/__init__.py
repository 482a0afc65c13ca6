"""Exact uneven mapping: every tensor has its own place among the loops of a level (docs/explanation/exact-mapper.md)."""
