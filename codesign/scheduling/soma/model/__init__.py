"""What SoMa's schedules are made of: the layer graph, the accelerator, the notation, the rules; and where they come from."""
