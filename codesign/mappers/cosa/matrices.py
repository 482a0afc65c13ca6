"""The constants of the CoSA program, derived from any computation and any architecture.

A says which dimension sizes which tensor, B which level stores which tensor, M how many elements of it (Q. Huang et
al., "CoSA", ISCA 2021, tables II and IV). Levels are counted as everywhere in this project: 0 is the outermost.
"""

import math
from dataclasses import dataclass
from enum import Enum

from codesign.mapping.constraints import Keep, MappingProblem
from codesign.workloads.computation import Computation, Role, Tensor


class Reading(Enum):
    """Which of the published forms of the program is meant; see docs/explanation/cosa.md.

    PAPER: the equations as printed. A sliding window adds nothing to a tile and a level is shared equally.
    HEAD: the newest published source: as PAPER, but every window dimension (R, S) is forced outermost.
    PRE: the source before that change: tiles inside the network level have halos, and an output gets three parts of a
        shared level where an input gets one (24-bit sums beside 8-bit operands).
    """

    PAPER = "paper"
    HEAD = "head"
    PRE = "pre"


@dataclass(frozen=True)
class Matrices:
    """Constants of one program. D dimensions, T tensors, L levels (0 outermost).

    Args:
        relevant: ``D x T``, the matrix A: whether a dimension sizes a tensor.
        window: ``D x T``, whether it only widens the window that slides over one of the tensor's axes (R, S of an input).
        stride: ``D x T`` coefficient multiplied into every prime factor, 1 where there is none.
        slid_by: Pairs (window dimension, the dimensions that slide it) for every tensor: ``T x ...``.
        stored: ``L x T``, the matrix B.
        elements: ``L x T``, M: elements of a tensor that fit its share of one instance, at least one; infinite where
            unbounded.
    """

    relevant: tuple[tuple[bool, ...], ...]
    window: tuple[tuple[bool, ...], ...]
    stride: tuple[tuple[int, ...], ...]
    slid_by: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
    stored: tuple[tuple[bool, ...], ...]
    elements: tuple[tuple[float, ...], ...]


def make_matrices(problem: MappingProblem, reading: Reading, input_share: float | None = None) -> Matrices:
    """The constants of a problem.

    Args:
        problem: Computation, architecture, constraints (which decide B).
        reading: Decides how a level is shared.
        input_share: Overrides the share of a level that its inputs and weights together get beside an output.
    """
    computation, levels = problem.computation, problem.architecture.levels
    relevant, window, stride = [], [], []
    slid = [_sliding(computation, t) for t in computation.tensors]
    for d, dim in enumerate(computation.dims):
        window.append(tuple(any(d == w for w, _ in pairs) for pairs in slid))
        relevant.append(tuple(dim in t.dims and not w for t, w in zip(computation.tensors, window[-1], strict=True)))
        stride.append(
            tuple(_stride(t, dim) if r else 1 for t, r in zip(computation.tensors, relevant[-1], strict=True))
        )
    stored, elements = [], []
    for v, level in enumerate(levels):
        kept = tuple(
            problem.constraints.decision(problem.architecture, level.name, t) is not Keep.NO
            for t in computation.tensors
        )
        stored.append(kept)
        shares = _shares(computation.tensors, kept, reading, input_share)
        bits = level.capacity_bits
        elements.append(
            tuple(
                math.inf if bits is None or v == 0 or not k else max(1.0, s * bits / level.element_bits(t.partial_bits))
                for t, k, s in zip(computation.tensors, kept, shares, strict=True)
            )
        )
    return Matrices(tuple(relevant), tuple(window), tuple(stride), tuple(slid), tuple(stored), tuple(elements))


def _sliding(computation: Computation, tensor: Tensor) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """(window dimension, dimensions that slide it) of every axis where summed and unsummed dimensions are added."""
    pairs = []
    for axis in tensor.axes:
        dims = [d for d, _ in axis.terms]
        sliding = tuple(computation.dims.index(d) for d in dims if d not in computation.reduced_dims)
        if sliding and len(sliding) < len(dims):
            pairs += [(computation.dims.index(d), sliding) for d in dims if d in computation.reduced_dims]
    return tuple(pairs)


def _stride(tensor: Tensor, dim: str) -> int:
    """Largest coefficient of a dimension on the tensor's axes."""
    return max(c for axis in tensor.axes for d, c in axis.terms if d == dim)


def _shares(
    tensors: tuple[Tensor, ...], kept: tuple[bool, ...], reading: Reading, input_share: float | None
) -> tuple[float, ...]:
    """Part of a level each kept tensor may fill; 0 for the others."""
    n = sum(kept)
    mixed = kept[-1] and n > 1
    parts = [float(k) for k in kept]
    if mixed and input_share is not None:
        parts = [input_share / (n - 1) * k for k in kept[:-1]] + [1.0 - input_share]
    elif reading is Reading.PRE:
        parts = [3.0 * k if t.role is Role.OUTPUT else float(k) for t, k in zip(tensors, kept, strict=True)]
    total = sum(parts) or 1.0
    return tuple(p / total for p in parts)
