"""The exact program of labels: one lattice of tiles, stages of places, and whatever rules say what a step costs."""
