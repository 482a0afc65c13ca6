"""The cost semantics `zigzag`: uneven mappings, word accesses per port, stalls per port. Rules Z1... in docs/explanation/loop-order.md."""
