"""Why an intrinsic matches nothing: the condition at which the nearest miss fails, in words."""

from collections import Counter
from dataclasses import dataclass

from codesign.core.errors import UserError
from codesign.tensorization.intrinsics import Intrinsic
from codesign.tensorization.matching import Condition, Match, printed_matches
from codesign.tensorization.trees import Leaf, Operation, SyntaxTree, syntax_tree
from codesign.workloads.computation import Computation

_SEARCH_STEPS = 3000
"""Leaf assignments tried for the nearest structural miss. It only words a message, and must not delay it: this many
take some 20 ms."""

_MEETING = {
    Operation.SUM: "a summation",
    Operation.MULTIPLY: "the multiplication (different operands)",
    Operation.INDEX: "one operand's indexing (different axes)",
    Operation.ADD: "an addition inside one axis",
    Operation.SCALE: "a scaling",
}


@dataclass(frozen=True)
class Miss:
    """The nearest miss.

    Args:
        condition: The condition that fails.
        index_map: The indices that were sent somewhere (empty when the step before any sending fails).
        reason: The failure in words.
    """

    condition: Condition
    index_map: tuple[tuple[str, str], ...]
    reason: str

    def __str__(self) -> str:
        sent = f" for {', '.join(f'{i}->{d}' for i, d in self.index_map)}" if self.index_map else ""
        return f"condition {self.condition.value} ({self.condition.title}) fails{sent}: {self.reason}"


def nearest_miss(computation: Computation, intrinsic: Intrinsic) -> Miss | None:
    """The failure of the candidate that gets furthest, or None when there is a sound match."""
    printed = printed_matches(computation, intrinsic)
    if any(m.is_sound for m in printed):
        return None
    if printed:
        best: Match = max(printed, key=lambda m: m.failed.value if m.failed is not None else 0)
        return Miss(best.failed or Condition.COVERAGE, best.index_map, best.reason)
    theirs, ours = syntax_tree(intrinsic.computation), syntax_tree(computation)
    problem = _index_problem(theirs, ours)
    if problem:
        return Miss(Condition.INDEX, (), problem)
    return _structural_miss(computation, intrinsic.computation, theirs, ours)


def no_match_error(computation: Computation, intrinsic: Intrinsic) -> UserError:
    """The error for an intrinsic that matches nothing."""
    miss = nearest_miss(computation, intrinsic)
    return UserError(
        f"intrinsic {intrinsic.name!r} ({intrinsic.computation}) matches nothing; nearest miss: {miss}",
        where=str(computation),
        hint="try an intrinsic with fewer indices, or --partial to leave some of its indices unused",
    )


def _occurrences(tree: SyntaxTree) -> Counter[str]:
    return Counter(leaf.dim for leaf in tree.leaves)


def _index_problem(theirs: SyntaxTree, ours: SyntaxTree) -> str:
    """Why no one-to-one map of the leaves exists: index by index the computation needs as many occurrences."""
    wanted = _occurrences(theirs).most_common()
    offered = sorted(_occurrences(ours).values(), reverse=True)
    if len(wanted) > len(offered):
        return f"the intrinsic has {len(wanted)} indices, the computation only {len(offered)}"
    for rank, ((index, need), have) in enumerate(zip(wanted, offered, strict=False), start=1):
        if have < need:
            return (
                f"index {index!r} occurs {need} times in the intrinsic's inputs, "
                f"but only {rank - 1} dimension{'s' * (rank != 2)} of the computation occur{'s' * (rank == 2)} that often"
            )
    return ""


def _structural_miss(computation: Computation, intrinsic: Computation, theirs: SyntaxTree, ours: SyntaxTree) -> Miss:
    """The index-consistent assignment with the fewest pairs that meet at another operation (branch and bound)."""
    wanted, offered = theirs.leaves, ours.leaves
    best_cost = len(wanted) ** 2 + 1
    best: tuple[int, ...] = ()
    steps = 0
    have, need = _occurrences(ours), _occurrences(theirs)

    def extend(chosen: tuple[int, ...], dim_of: dict[str, str], cost: int) -> None:
        nonlocal best_cost, best, steps
        steps += 1
        if cost >= best_cost or steps > _SEARCH_STEPS:
            return
        at = len(chosen)
        if at == len(wanted):
            best_cost, best = cost, chosen
            return
        index = wanted[at].dim
        options = []
        for candidate, leaf in enumerate(offered):
            if candidate in chosen or have[leaf.dim] < need[index]:
                continue
            if dim_of[index] != leaf.dim if index in dim_of else leaf.dim in dim_of.values():
                continue
            wrong = sum(ours.lca[candidate][mine] is not theirs.lca[at][q] for q, mine in enumerate(chosen))
            options.append((wrong, candidate))
        for wrong, candidate in sorted(options):
            extend((*chosen, candidate), {**dim_of, index: offered[candidate].dim}, cost + wrong)

    extend((), {}, 0)
    dim_of = {q.dim: offered[mine].dim for q, mine in zip(wanted, best, strict=False)}
    return Miss(
        Condition.STRUCTURE, tuple(dim_of.items()), _structure_problem(computation, intrinsic, theirs, ours, best)
    )


def _structure_problem(
    computation: Computation, intrinsic: Computation, theirs: SyntaxTree, ours: SyntaxTree, leaves: tuple[int, ...]
) -> str:
    for a, mine in enumerate(leaves):
        for b in range(a):
            there, here = theirs.lca[a][b], ours.lca[mine][leaves[b]]
            if there is not here:
                pair = f"{_spot(intrinsic, theirs.leaves[b])} and {_spot(intrinsic, theirs.leaves[a])} of the intrinsic"
                other = f"{_spot(computation, ours.leaves[leaves[b]])} and {_spot(computation, ours.leaves[mine])}"
                return f"{pair} meet at {_MEETING[there]}, {other} at {_MEETING[here]}"
    return "no candidate keeps the operations between its indices"


def _spot(computation: Computation, leaf: Leaf) -> str:
    return f"{leaf.dim!r} in {computation.inputs[leaf.operand]}"
