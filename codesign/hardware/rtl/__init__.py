"""The generators, written in Amaranth."""
