"""ZigZag's files: accelerator, workload, mapping."""
