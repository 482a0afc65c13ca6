"""Operator order, scratchpad addresses and spills of a whole network, together and optimally (COSMA)."""
