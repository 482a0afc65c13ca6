"""A bound on energy and cycles of the same imperfect mapping: rules IB7 to IB16 (docs/explanation/exact-mapper.md)."""
