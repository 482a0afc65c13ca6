"""A design and its program as register-transfer-level hardware: generated, simulated, synthesised."""
