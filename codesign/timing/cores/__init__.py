"""Systems of equal cores: what one operator takes on a graphics processor (docs/reference/cores.md, rules G1 to G9)."""
