"""Exact fusion of operator graphs: shared loops, tensors that stay on the chip (docs/explanation/exact-mapper.md)."""
