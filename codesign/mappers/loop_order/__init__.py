"""LOMA and SALSA: orders of loop prime factors, with a memory allocation that follows from the order."""
