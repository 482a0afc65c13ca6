"""The exact mapper's search over all keep sets of a profile at once (sections D8 to D10 in docs/explanation/exact-mapper.md)."""
