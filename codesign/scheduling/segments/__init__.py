"""Networks on systems of many cores: trees of segments, their evaluation, bounds and search."""
