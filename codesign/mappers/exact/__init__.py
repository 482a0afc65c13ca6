"""Proven optimal mappings of one operator on one accelerator (docs/exact-mapper.md)."""

from codesign.mappers.exact.mapper import ExactMapper

__all__ = ["ExactMapper"]
