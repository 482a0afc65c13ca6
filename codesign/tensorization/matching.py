"""Two-step matching: which dimensions of a computation one call of an intrinsic may take.

HASCO (ISCA 2021), Sec. IV-B. *Index matching* sends the leaves of the intrinsic's tree one-to-one to leaves of the
computation's tree so that leaves of one index go to leaves of one index. *Structure matching* asks that every two
leaves meet at the same operation in both trees. These two steps as printed also accept choices that compute
something else; two further conditions make them sound:

3. *iteration types*: indices of the intrinsic's output go to indices of the output, summed ones to summed ones;
4. *coverage*: every occurrence of a matched index, in every operand and in the output, is covered by the intrinsic's
   operand: no occurrence is left out, and the coefficients of an axis agree with the intrinsic's up to one factor.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations

from codesign.tensorization.intrinsics import Intrinsic
from codesign.tensorization.trees import SyntaxTree, syntax_tree
from codesign.workloads.computation import AffineIndex, Computation, Tensor


class Condition(IntEnum):
    """The conditions in the order in which they are checked."""

    INDEX = 1
    STRUCTURE = 2
    ITERATION_TYPES = 3
    COVERAGE = 4

    @property
    def title(self) -> str:
        """The condition's name in messages."""
        return _TITLES[self]


_TITLES = {
    Condition.INDEX: "index matching",
    Condition.STRUCTURE: "structure matching",
    Condition.ITERATION_TYPES: "iteration types",
    Condition.COVERAGE: "coverage",
}


@dataclass(frozen=True)
class OperandMap:
    """Where one tensor of the intrinsic lies in the computation.

    Args:
        intrinsic_tensor: Its name there.
        tensor: The computation's tensor, or None for a scalar operand that is simply one.
        axes: For each axis of the intrinsic's tensor the axis of the computation's tensor it walks along and how many
            positions one step takes (2 for a stride of two); None where the axis is one element long.
    """

    intrinsic_tensor: str
    tensor: str | None
    axes: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class Match:
    """One way to give dimensions of a computation to an intrinsic.

    Args:
        index_map: Pairs (index of the intrinsic, dimension of the computation), in the intrinsic's order.
        operands: One entry per tensor of the intrinsic, inputs first, then the output.
        scalars: Inputs of the computation that no operand takes: one element each scales the result of a call.
        failed: The first condition that does not hold, or None for a sound match.
        reason: That failure in words.
    """

    index_map: tuple[tuple[str, str], ...]
    operands: tuple[OperandMap, ...]
    scalars: tuple[str, ...] = ()
    failed: Condition | None = None
    reason: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether running the tiled program with this match computes the right thing."""
        return self.failed is None

    def __str__(self) -> str:
        return ", ".join(f"{i}->{d}" for i, d in self.index_map)


def printed_matches(computation: Computation, intrinsic: Intrinsic) -> tuple[Match, ...]:
    """All matches of the rule as printed (steps 1 and 2), sound ones and others; one per index map.

    Where several leaf assignments give the same index map, the one that gets furthest is kept.
    """
    theirs, ours = syntax_tree(intrinsic.computation), syntax_tree(computation)
    best: dict[tuple[tuple[str, str], ...], Match] = {}
    for leaves in _assignments(theirs, ours):
        match = _judge(computation, intrinsic.computation, theirs, ours, leaves)
        known = best.get(match.index_map)
        if known is None or _reach(match) > _reach(known):
            best[match.index_map] = match
    order = {dim: at for at, dim in enumerate(computation.dims)}
    return tuple(sorted(best.values(), key=lambda m: [order[d] for _, d in m.index_map]))


def sound_matches(computation: Computation, intrinsic: Intrinsic) -> tuple[Match, ...]:
    """All sound matches.

    >>> from codesign.tensorization.intrinsics import intrinsic
    >>> gemm = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=4, j=4, k=4)
    >>> [str(m) for m in sound_matches(gemm, intrinsic("gemv"))]
    ['i->i, j->k', 'i->j, j->k']
    """
    return tuple(m for m in printed_matches(computation, intrinsic) if m.is_sound)


def partial_matches(computation: Computation, intrinsic: Intrinsic) -> tuple[Match, ...]:
    """Sound matches that leave some of the intrinsic's indices without a dimension (a length of one, padded up).

    So a depthwise convolution, which has no dimension that only its weights and its output share, can still use a
    matrix-multiply unit, with one of its columns busy. Only maximal ones are returned: none is part of another or of a
    full match.
    """
    dims = intrinsic.computation.dims
    kept: list[Match] = list(sound_matches(computation, intrinsic))
    full = len(kept)
    for size in range(len(dims) - 1, 0, -1):
        for chosen in combinations(dims, size):
            restricted = _restrict(intrinsic.computation, frozenset(chosen))
            if restricted is None:
                continue
            for match in sound_matches(computation, Intrinsic(intrinsic.name, restricted)):
                pairs = set(match.index_map)
                if not any(pairs <= set(other.index_map) for other in kept):
                    kept.append(_widen(match, intrinsic.computation, frozenset(chosen)))
    return tuple(kept[full:])


def _reach(match: Match) -> int:
    return len(Condition) + 1 if match.failed is None else match.failed.value


def _assignments(theirs: SyntaxTree, ours: SyntaxTree) -> Iterator[tuple[int, ...]]:
    """Every one-to-one leaf assignment that passes index and structure matching, by backtracking."""
    wanted, offered = theirs.leaves, ours.leaves
    chosen: list[int] = []
    dim_of: dict[str, str] = {}

    def extend() -> Iterator[tuple[int, ...]]:
        at = len(chosen)
        if at == len(wanted):
            yield tuple(chosen)
            return
        index = wanted[at].dim
        bound_dim = dim_of.get(index)
        taken = set(dim_of.values())
        relations = theirs.lca[at]
        for candidate, leaf in enumerate(offered):
            if candidate in chosen or (leaf.dim != bound_dim if bound_dim is not None else leaf.dim in taken):
                continue
            row = ours.lca[candidate]
            if any(row[mine] is not relations[before] for before, mine in enumerate(chosen)):
                continue
            chosen.append(candidate)
            if bound_dim is None:
                dim_of[index] = leaf.dim
            yield from extend()
            chosen.pop()
            if bound_dim is None:
                del dim_of[index]

    return extend()


def _judge(
    computation: Computation, intrinsic: Computation, theirs: SyntaxTree, ours: SyntaxTree, leaves: tuple[int, ...]
) -> Match:
    """The match of one leaf assignment, with the first of conditions 3 and 4 that fails."""
    dim_of = {wanted.dim: ours.leaves[mine].dim for wanted, mine in zip(theirs.leaves, leaves, strict=True)}
    pairs = tuple((index, dim_of[index]) for index in intrinsic.dims if index in dim_of)
    operand_of = {theirs.leaves[at].operand: ours.leaves[mine].operand for at, mine in enumerate(leaves)}
    maps, gain_problem = _input_maps(computation, intrinsic, theirs, ours, leaves)
    output_map, output_problem = _output_map(computation.output, intrinsic.output, dim_of)
    covered = {computation.inputs[p].name for p in operand_of.values()}
    uncovered = [t.name for t in computation.inputs if t.name not in covered]
    operands = []
    for at, tensor in enumerate(intrinsic.inputs):
        if at in maps:
            operands.append(maps[at])
        else:  # a scalar operand takes a whole operand that the match leaves alone
            operands.append(
                OperandMap(tensor.name, uncovered.pop(0) if uncovered else None, (None,) * len(tensor.axes))
            )
    problems = (
        (Condition.ITERATION_TYPES, _iteration_problem(computation, intrinsic, dim_of)),
        (Condition.COVERAGE, _coverage_problem(computation, ours, leaves) or gain_problem or output_problem),
    )
    failed, reason = next(((c, text) for c, text in problems if text), (None, ""))
    return Match(pairs, (*operands, output_map), tuple(uncovered), failed, reason)


def _iteration_problem(computation: Computation, intrinsic: Computation, dim_of: dict[str, str]) -> str:
    for index, dim in dim_of.items():
        theirs, ours = index in intrinsic.output.dims, dim in computation.output.dims
        if theirs != ours:
            kinds = {True: "an index of the output", False: "summed over"}
            return f"{index!r} is {kinds[theirs]} but {dim!r} is {kinds[ours]}"
    return ""


def _coverage_problem(computation: Computation, ours: SyntaxTree, leaves: tuple[int, ...]) -> str:
    matched = {ours.leaves[mine].dim for mine in leaves}
    for at, leaf in enumerate(ours.leaves):
        if leaf.dim in matched and at not in leaves:
            tensor = computation.inputs[leaf.operand]
            return f"{leaf.dim!r} also indexes {tensor} (axis {leaf.axis + 1}), and that occurrence is not covered"
    return ""


def _input_maps(
    computation: Computation, intrinsic: Computation, theirs: SyntaxTree, ours: SyntaxTree, leaves: tuple[int, ...]
) -> tuple[dict[int, OperandMap], str]:
    """Operand maps of the inputs that have leaves, and what is wrong with the coefficients, if anything."""
    terms: dict[int, dict[int, list[tuple[int, int, int]]]] = {}
    target: dict[int, int] = {}
    for wanted, mine in zip(theirs.leaves, (ours.leaves[m] for m in leaves), strict=True):
        target[wanted.operand] = mine.operand
        terms.setdefault(wanted.operand, {}).setdefault(wanted.axis, []).append(
            (mine.axis, mine.coefficient, wanted.coefficient)
        )
    problem = ""
    maps: dict[int, OperandMap] = {}
    for operand, by_axis in terms.items():
        tensor = intrinsic.inputs[operand]
        axes: list[tuple[int, int] | None] = []
        for number in range(len(tensor.axes)):
            gain, wrong = _gain(by_axis.get(number, []))
            axes.append(gain)
            problem = problem or (f"in {tensor.name!r}: {wrong}" if wrong else "")
        maps[operand] = OperandMap(tensor.name, computation.inputs[target[operand]].name, tuple(axes))
    return maps, problem


def _gain(terms: list[tuple[int, int, int]]) -> tuple[tuple[int, int] | None, str]:
    """Axis and positions per step from terms (axis, coefficient here, coefficient in the intrinsic)."""
    if not terms:
        return None, ""
    axis, ours, theirs = terms[0]
    gain = max(1, ours // theirs)
    if any(a != axis for a, _, _ in terms):
        return (axis, gain), "one axis of the intrinsic would lie along two axes"
    if any(c != gain * q for _, c, q in terms):
        here, there = "+".join(str(c) for _, c, _ in terms), "+".join(str(q) for _, _, q in terms)
        return (axis, gain), f"coefficients {here} are no whole multiple of the intrinsic's {there}"
    return (axis, gain), ""


def _output_map(output: Tensor, theirs: Tensor, dim_of: dict[str, str]) -> tuple[OperandMap, str]:
    """The output's map: its matched axes must be built like the intrinsic's."""
    where = [(at, dict(axis.terms)) for at, axis in enumerate(output.axes)]
    problem = ""
    axes: list[tuple[int, int] | None] = []
    covered: set[tuple[str, int]] = set()
    for axis in theirs.axes:
        terms = []
        for index, coefficient in axis.terms:
            dim = dim_of.get(index)
            spots = [(at, coefficients[dim], coefficient) for at, coefficients in where if dim in coefficients]
            if spots:
                terms.append(spots[0])
                covered.add((str(dim), spots[0][0]))
        gain, wrong = _gain(terms)
        axes.append(gain)
        problem = problem or (f"in the output: {wrong}" if wrong else "")
    used = [axis[0] for axis in axes if axis is not None]
    if len(used) != len(set(used)):
        problem = problem or "in the output: two axes of the intrinsic would lie along one axis"
    for at, coefficients in where:
        for dim in coefficients:
            if dim in dim_of.values() and (dim, at) not in covered:
                problem = (
                    problem or f"{dim!r} also indexes {output} (axis {at + 1}), and that occurrence is not covered"
                )
    return OperandMap(theirs.name, output.name, tuple(axes)), problem


def _restrict(intrinsic: Computation, chosen: frozenset[str]) -> Computation | None:
    """The intrinsic with the other indices held at zero, axes that become empty left out; None if it does not exist."""
    tensors = []
    for tensor in intrinsic.tensors:
        axes = tuple(
            AffineIndex(terms) for axis in tensor.axes if (terms := tuple((d, c) for d, c in axis.terms if d in chosen))
        )
        tensors.append(Tensor(tensor.name, axes, tensor.role, tensor.bits, tensor.partial_bits))
    if not any(t.axes for t in tensors[:-1]):
        return None
    kept = tuple((d, b) for d, b in intrinsic.sizes.items() if d in chosen)
    return Computation(tuple(d for d, _ in kept), tuple(b for _, b in kept), tuple(tensors), intrinsic.name)


def _widen(match: Match, intrinsic: Computation, chosen: frozenset[str]) -> Match:
    """A match of a restricted intrinsic as one of the full intrinsic: the axes left out come back, one element long."""
    operands = []
    for operand, tensor in zip(match.operands, intrinsic.tensors, strict=True):
        short = iter(operand.axes)
        axes = tuple(next(short) if any(d in chosen for d, _ in axis.terms) else None for axis in tensor.axes)
        operands.append(OperandMap(operand.intrinsic_tensor, operand.tensor, axes))
    return Match(match.index_map, tuple(operands), match.scalars)
