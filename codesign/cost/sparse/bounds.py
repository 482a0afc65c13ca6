"""A problem rescaled so that the dense kernel scores what sparsity leaves at least (law E8).

Every factor is the least any mapping can reach: leaders decide element by element, and of the metadata only those that every
mapping has are counted. Where a mapping reaches them, as with one-element leader tiles and flat formats, the score is exact.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from codesign.arch.architecture import Architecture, StorageLevel
from codesign.arch.sparsity import RankFormat, TensorFormat, ZeroKind
from codesign.core.errors import UserError
from codesign.core.goals import Objective
from codesign.cost.arrays import UNBOUNDED, Problem, Reuse, encode_problem, may_keep
from codesign.cost.sparse.metadata import aligned
from codesign.mapping.constraints import Keep, MappingProblem
from codesign.mapping.nest import FloatArray
from codesign.workloads.computation import Computation, Tensor
from codesign.workloads.density import DENSE

FIXED_POINT = 1 << 16
"""Capacities and elements of sparse problems are counted in bits over this."""


class Shares(NamedTuple):
    """What is left of a dense problem, as fractions.

    Attributes:
        moved: ``L x T x 3`` bits read, filled, updated.
        stored: ``L x T`` bits held.
        done: MACs done.
        timed: MACs that take a cycle.
    """

    moved: FloatArray
    stored: FloatArray
    done: float
    timed: float


def is_sparse(architecture: Architecture) -> bool:
    """Whether the hardware knows zeros. Densities alone change no count."""
    return architecture.mac.zeros is not None or any(
        v.sparsity.formats or v.sparsity.actions for v in architecture.levels
    )


Sure = frozenset[tuple[int, str]]
"""(level, tensor) of what every mapping keeps."""


@dataclass(frozen=True)
class _Action:
    """An action that gates or skips, on one tensor.

    Args:
        kind: Which.
        follower: Name of the tensor.
        reach: Levels it may act at, over all mappings (law A4).
        kept: Least share of the follower's accesses that it keeps.
        single: Whether its leaders are met one element at a time under every mapping.
    """

    kind: ZeroKind
    follower: str
    reach: frozenset[int]
    kept: float
    single: bool


def is_rescaled(computation: Computation, architecture: Architecture) -> bool:
    """Whether the dense kernel needs shares: the hardware knows zeros, or elements have scales beside them."""
    return is_sparse(architecture) or any(t.scale_bits for t in computation.tensors)


def value_bits(level: StorageLevel, tensor: Tensor, *, outermost: bool) -> float:
    """Bits of one element with its share of a scale; partial sums have none (rule P2)."""
    bits = level.element_bits(tensor.bits if outermost else tensor.partial_bits)
    return bits + (tensor.scale_bits if outermost or not tensor.is_output else 0.0)


def least_shares(computation: Computation, architecture: Architecture, sure: Sure = frozenset()) -> Shares:
    """The least that any mapping leaves.

    Args:
        computation: With densities.
        architecture: With formats and actions.
        sure: What every mapping keeps.

    Raises:
        UserError: An action that no mapper searches with.
    """
    levels, tensors = architecture.levels, computation.tensors
    whole = {t.name: t.shape(computation.sizes) for t in tensors}
    fraction = {t.name: t.density.fraction(whole[t.name]) for t in tensors}
    actions = _actions(computation, architecture, fraction, sure)
    moved, stored = np.ones((len(levels), len(tensors), 3)), np.ones((len(levels), len(tensors)))
    for t, tensor in enumerate(tensors):
        own = [a for a in actions if a.follower == tensor.name]
        for v, level in enumerate(levels):
            held = format_share(level, tensor, fraction[tensor.name], outermost=v == 0)
            arriving = min((a.kept for a in own if min(a.reach) < v), default=1.0)
            here = min((a.kept for a in own if min(a.reach) <= v), default=1.0)
            stored[v, t] = held
            moved[v, t] = held * here, held * arriving, held * here
    inputs = {t.name for t in computation.inputs}
    effectual = math.prod(fraction[name] for name in inputs)

    def left(kinds: tuple[ZeroKind, ...]) -> float:
        """Share of the MACs whose operands are all fetched."""
        return math.prod(
            min((a.kept for a in actions if a.follower == n and a.kind in kinds), default=1.0) for n in inputs
        )

    zeros = architecture.mac.zeros
    coded = all(any(format_of(level, t) is not None for level in levels) for t in computation.inputs)
    some = 1.0 - math.prod(1.0 - fraction[n] for n in inputs) if coded else 1.0  # a MAC none of whose operands exists
    done = effectual if zeros is not None else max(min(left((ZeroKind.GATE, ZeroKind.SKIP)), some), effectual)
    gated = any(a.kind is ZeroKind.GATE and a.single and a.follower in inputs for a in actions)
    timed = max(min(left((ZeroKind.SKIP,)), 1.0 if gated else some), effectual)
    timed = effectual if zeros is ZeroKind.SKIP else timed
    return Shares(moved, stored, done, timed)


def _actions(
    computation: Computation, architecture: Architecture, fraction: dict[str, float], sure: Sure
) -> list[_Action]:
    """The actions of an architecture, tensor by tensor."""
    found = []
    for u, level in enumerate(architecture.levels):
        for action in level.sparsity.actions:
            if action.kind in (ZeroKind.SKIP_SPATIAL, ZeroKind.SKIP_POSITIONS):
                raise UserError(
                    f"mappers do not search with {action.kind.value}",
                    where=f"level {level.name!r}",
                    hint="evaluate a mapping of your own, or take skipping",
                )
            leaders = {t.name for t in computation.tensors for n in action.leaders if may_keep(frozenset({n}), t)}
            for tensor in computation.tensors:
                if not may_keep(frozenset({action.follower}), tensor):
                    continue
                stop = max((w for w in range(u + 1) if (w, tensor.name) in sure), default=0)
                reach = frozenset(v for v in range(stop, u + 1) if may_keep(architecture.levels[v].keep, tensor))
                kept = math.prod(fraction[name] for name in leaders - {tensor.name})
                innermost = u == len(architecture.levels) - 1 and level.fanout.size == 1
                single = innermost and (u, tensor.name) in sure
                found.append(_Action(action.kind, tensor.name, reach or frozenset({0}), kept, single))
    return found


def format_of(level: StorageLevel, tensor: Tensor) -> TensorFormat | None:
    """The format of a tensor at a level."""
    found = [f for f in level.sparsity.formats if may_keep(frozenset({f.tensor}), tensor)]
    if not found or (found[0].where_zeros and tensor.density == DENSE):
        return None
    return found[0]


def format_share(level: StorageLevel, tensor: Tensor, fraction: float, *, outermost: bool) -> float:
    """Bits that a format takes at least, as a fraction of the dense tensor's, rounded down to `FIXED_POINT` of a bit."""
    kept = format_of(level, tensor)
    bits = level.element_bits(tensor.bits if outermost else tensor.partial_bits)
    whole = value_bits(level, tensor, outermost=outermost)
    if kept is None:
        return whole / bits
    rank = kept.ranks[-1]
    own = rank.format.entry_bits or level.sparsity.metadata_bits
    width = aligned(own if rank.metadata_bits is None else rank.metadata_bits, level.sparsity.metadata_word_bits)
    entries = {RankFormat.FLAT_BITMASK: 1.0, RankFormat.PLAIN_BITMASK: 1.0, RankFormat.OFFSETS: 0.0}
    metadata = width * entries.get(rank.format, fraction)
    return ((fraction if kept.compressed else 1.0) * whole + metadata) / bits


def rescale(problem: Problem, shares: Shares) -> Problem:
    """The problem with energies, words, capacities and bandwidths so that the dense kernel scores the shares.

    Cycles come out in units of `shares.timed`: ports are slower by it instead of MACs being faster, which is the same ratio.
    """
    stored = np.floor(problem.element_bits * shares.stored * FIXED_POINT).astype(np.int64)
    bounded = problem.capacity_bits < UNBOUNDED // FIXED_POINT
    sent = np.concatenate([shares.moved[:, :-1, 0], shares.moved[:, -1:, 2]], axis=1)
    words = problem.words * np.minimum(shares.moved[..., 0], shares.moved[..., 1:].min(axis=-1))
    return problem._replace(
        element_bits=stored,
        capacity_bits=np.where(bounded, problem.capacity_bits * bounded * FIXED_POINT, UNBOUNDED),
        energy=problem.energy * shares.moved,
        words=words,
        hop_energy=problem.hop_energy * sent,
        bandwidth=problem.bandwidth * shares.timed,
        mac_energy=problem.mac_energy * shares.done,
    )


def sure_keeps(source: MappingProblem) -> Sure:
    """What every mapping of a problem keeps."""
    return frozenset(
        (v, tensor.name)
        for v, level in enumerate(source.architecture.levels)
        for tensor in source.computation.tensors
        if source.constraints.decision(source.architecture, level.name, tensor) is Keep.YES
    )


def scored_problem(source: MappingProblem, reuse: Reuse = Reuse.TIMELOOP) -> Problem:
    """What a mapper scores: the problem itself, or rescaled where the hardware knows zeros.

    Raises:
        UserError: As `encode_problem`; or an action that no mapper searches with.
    """
    problem = encode_problem(source.computation, source.architecture, reuse)
    if not is_rescaled(source.computation, source.architecture):
        return problem
    return rescale(problem, least_shares(source.computation, source.architecture, sure_keeps(source)))


def least_value(source: MappingProblem, objective: Objective, score: float) -> float:
    """The bound that a score of the rescaled kernel is on the true objective: its cycles are in units of MACs that take one."""
    if not is_rescaled(source.computation, source.architecture):
        return score
    timed = least_shares(source.computation, source.architecture, sure_keeps(source)).timed
    return float(score * timed**objective.latency_exponent)


def refuse_sparsity(architecture: Architecture, who: str) -> None:
    """Refuse hardware that knows zeros where a mapper scores by rules of its own.

    Raises:
        UserError: It does.
    """
    if is_sparse(architecture):
        raise UserError(
            f"{who} knows dense accesses only, the architecture {architecture.name!r} leaves zeros out",
            hint="take the analytical model and its mappers: exact, anneal, genetic, random",
        )
