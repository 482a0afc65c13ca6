"""Lower bounds on the metrics of a design over all its mappings (docs/explanation/bounds.md)."""

from codesign.bounds.design import DesignBounds, bounds_of

__all__ = ["DesignBounds", "bounds_of"]
