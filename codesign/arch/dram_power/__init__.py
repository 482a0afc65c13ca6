"""DRAM energy from commands: devices with currents and voltages, states over time, energies (docs/reference/dram-energy.md)."""
