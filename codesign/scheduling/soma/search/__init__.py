"""The search for a schedule: fusion attributes, DRAM attributes, baselines and bounds."""
