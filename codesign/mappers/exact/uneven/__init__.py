"""Proven uneven mappings under the default rules: every tensor of a level has its own place (P1-P9, docs/explanation/exact-mapper.md)."""
