"""Expected accesses when operands have zeros: the laws of docs/reference/sparsity.md."""
