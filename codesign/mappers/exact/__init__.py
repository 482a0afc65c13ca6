"""Proven optimal mappings of one operator on one accelerator (docs/explanation/exact-mapper.md)."""

from codesign.mappers.exact.latency_energy_front import pareto
from codesign.mappers.exact.mapper import ExactMapper

__all__ = ["ExactMapper", "pareto"]
