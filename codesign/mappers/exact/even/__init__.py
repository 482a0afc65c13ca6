"""Even mappings: one table program over tiles and keep sets (D1 to D11 of docs/explanation/exact-mapper.md)."""
