"""A compiler for the small part of Python that kernels are written in, to machine code by LLVM.

Kernels use numbers, NumPy arrays, named tuples of both, loops and branches, and calls of each other: nothing
else. For that subset a function is translated in milliseconds, and machine code is the whole cost. The semantics
are Python's on 64-bit integers and doubles, except where `docs/explanation/compiled-kernels.md` says otherwise.
"""
