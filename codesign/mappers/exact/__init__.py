"""Proven optimal mappings of one operator on one accelerator (docs/explanation/exact-mapper.md)."""

from codesign.mappers.exact.mapper import ExactMapper
from codesign.mappers.exact.pareto import pareto

__all__ = ["ExactMapper", "pareto"]
