"""SoMa's compiled code: from a scheme to tiles, times and energies, and the moves of its annealing."""
