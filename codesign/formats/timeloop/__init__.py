"""Timeloop's files: architecture, problem, mapping and constraints, energy reference tables."""
