"""The oracle of the sparse laws: walks a nest on actual zeros and leaves out, access by access, what the laws say.

Only multiply-accumulates that are done are summed, so a mapping whose intersection is wrong gives a wrong result. No closed form and no
density model is used. Reads of old partial sums are not told apart, only updates are counted for outputs.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from codesign.arch.architecture import Architecture, Links
from codesign.arch.sparsity import ZeroKind
from codesign.cost.arrays import Reuse, may_keep
from codesign.cost.sparse.bounds import format_of
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation, Tensor
from experiments.attacks.interpreter import Instance, Walk, Word, Words

Operands = dict[str, npt.NDArray[np.float64]]


@dataclass
class Tally:
    """Elements, summed over instances."""

    actual: int = 0
    gated: int = 0
    skipped: int = 0


@dataclass
class Walked:
    """What was counted.

    Args:
        crossings: Reads of inputs and updates of outputs, by (level, tensor): data elements between the level and its child.
        macs: Multiply-accumulates.
        result: The output, from the MACs that were done.
    """

    crossings: dict[tuple[str, str], Tally]
    macs: Tally
    result: npt.NDArray[np.float64]


@dataclass
class _Fetch:
    """One fetch of a child: its words, and what of every leader meets them before the next fetch."""

    words: Words
    met: dict[str, set[Word]] = field(default_factory=lambda: defaultdict(set))
    fate: ZeroKind | None = None


Moment = tuple[tuple[int, int], ...]


def walk_zeros(computation: Computation, architecture: Architecture, mapping: Mapping, operands: Operands) -> Walked:
    """Run a mapping on numbers with zeros.

    Args:
        computation: Small.
        architecture: With formats and gating or skipping actions.
        mapping: A nest for the two.
        operands: Input arrays by name.

    Returns:
        Counts and the output.

    Raises:
        UserError: The mapping is malformed.
    """
    walk = Walk(computation, architecture, mapping)
    tallies: dict[tuple[str, str], Tally] = {}
    fates: dict[str, dict[tuple[Instance, Moment], ZeroKind | None]] = {}
    for tensor in computation.tensors:
        chain = walk.chain(tensor)
        alive: dict[tuple[Instance, Moment], ZeroKind | None] = {}
        for parent, child in zip(chain, [*chain[1:], len(architecture.levels)], strict=True):
            tally, alive = _boundary(walk, tensor, parent, child, operands, alive)
            tallies[architecture.levels[parent].name, tensor.name] = tally
        fates[tensor.name] = alive
    macs, result = _compute(walk, operands, fates)
    return Walked(tallies, macs, result)


def _kept_format(walk: Walk, level: int, tensor: Tensor) -> bool:
    kept = format_of(walk.architecture.levels[level], tensor)
    return kept is not None and kept.compressed


def _leaders(walk: Walk, tensor: Tensor, parent: int, child: int) -> list[tuple[ZeroKind, list[Tensor]]]:
    """The actions that act on a tensor between a level and its child (law A4)."""
    found = []
    for level in walk.architecture.levels[parent:child]:
        for action in level.sparsity.actions:
            if may_keep(frozenset({action.follower}), tensor):
                names = [t for n in action.leaders for t in walk.computation.tensors if may_keep(frozenset({n}), t)]
                found.append((action.kind, [t for t in names if t != tensor]))
    return found


def _boundary(
    walk: Walk,
    tensor: Tensor,
    parent: int,
    child: int,
    operands: Operands,
    outer: dict[tuple[Instance, Moment], ZeroKind | None],
) -> tuple[Tally, dict[tuple[Instance, Moment], ZeroKind | None]]:
    """Everything that crosses between a level and its child, and what became of it at every moment."""
    actions = _leaders(walk, tensor, parent, child)
    leaders = {t.name: t for _, group in actions for t in group}
    fetches, at_moment = _fetches(walk, tensor, child, list(leaders.values()))
    width = len(walk.spatial_outside(parent))
    groups: dict[tuple[Instance, Moment, Words], list[_Fetch]] = defaultdict(list)
    for (instance, moment), fetch in fetches.items():
        if fetch.words:
            groups[instance[: _shared(walk, parent, child, width)], moment, fetch.words].append(fetch)
    tally = Tally()
    stored = _kept_format(walk, parent, tensor)
    for (instance, moment, words), members in groups.items():
        met = {name: set().union(*(f.met[name] for f in members)) for name in leaders}
        fate = _outer_fate(outer, instance[:width], moment)
        if fate is None:
            fate = next(
                (kind for kind, group in actions if not all(_some(operands, t.name, met[t.name]) for t in group)), None
            )
            count = sum(operands[tensor.name][w] != 0 for w in words) if stored else len(words)
            name = {None: "actual", ZeroKind.GATE: "gated", ZeroKind.SKIP: "skipped"}[fate]
            setattr(tally, name, getattr(tally, name) + int(count))
        for fetch in members:
            fetch.fate = fate
    return tally, {key: fetch.fate for key, fetch in at_moment.items()}


def _shared(walk: Walk, parent: int, child: int, width: int) -> int:
    """Spatial loops that tell apart the children which are served one by one."""
    links = [walk.architecture.levels[m].fanout.links for m in range(parent, child)]
    return width if all(x is not Links.NONE for x in links) else len(walk.spatial_outside(child))


def _outer_fate(
    outer: dict[tuple[Instance, Moment], ZeroKind | None], instance: Instance, moment: Moment
) -> ZeroKind | None:
    """What became, further out, of the fetch that this one's data came with."""
    if not outer:
        return None
    depths = {d for _, key in outer for d, _ in key}
    return outer[instance, tuple((d, k) for d, k in moment if d in depths)]


def _fetches(
    walk: Walk, tensor: Tensor, child: int, leaders: list[Tensor]
) -> tuple[dict[tuple[Instance, Moment], _Fetch], dict[tuple[Instance, Moment], _Fetch]]:
    """Every fetch by its instance and first moment, and the fetch in force at every moment."""
    is_mac = child == len(walk.architecture.levels)
    depth = len(walk.loops) if is_mac else walk.position[child, tensor.name]
    outside = walk.spatial_outside(child)
    begun: dict[tuple[Instance, Moment], _Fetch] = {}
    in_force: dict[tuple[Instance, Moment], _Fetch] = {}
    last: dict[Instance, _Fetch] = {}
    for at, _ in walk.steps(depth, Reuse.WALK):
        moment = tuple(sorted(at.items()))
        for instance in walk.instances(child):
            base = walk.base(at, {x.depth: k for x, k in zip(outside, instance, strict=True)})
            _, tile = walk.tile(tensor, depth, base)
            if is_mac or instance not in last or last[instance].words != tile:
                last[instance] = begun[instance, moment] = _Fetch(tile)
            fetch = in_force[instance, moment] = last[instance]
            for leader in leaders:
                fetch.met[leader.name] |= walk.tile(leader, depth, base)[1]
    return begun, in_force


def _some(operands: Operands, name: str, words: set[Word]) -> bool:
    return any(operands[name][w] != 0 for w in words)


def _compute(
    walk: Walk, operands: Operands, fates: dict[str, dict[tuple[Instance, Moment], ZeroKind | None]]
) -> tuple[Tally, npt.NDArray[np.float64]]:
    """Every multiply-accumulate (law E4), with gated reads holding up the MACs behind them (law E5)."""
    computation, zeros = walk.computation, walk.architecture.mac.zeros
    result = np.zeros(computation.output.shape(computation.sizes))
    tally = Tally()
    coded = {t.name: format_of(walk.architecture.levels[walk.chain(t)[-1]], t) is not None for t in computation.inputs}
    for index, instance, moment in _points(walk):
        words = {t.name: tuple(sum(c * index[d] for d, c in a.terms) for a in t.axes) for t in computation.tensors}
        lost = [fates[t.name][instance, moment] for t in computation.inputs]
        missing = [t.name for t in computation.inputs if operands[t.name][words[t.name]] == 0]
        if any(fate is ZeroKind.SKIP for fate in lost):
            continue
        if any(fate is ZeroKind.GATE for fate in lost):
            tally.gated += 1
        elif not missing:
            tally.actual += 1
            result[words[computation.output.name]] += np.prod(
                [operands[t.name][words[t.name]] for t in computation.inputs]
            )
        elif len(missing) == len(coded) and all(coded.values()):
            continue
        elif zeros is ZeroKind.GATE or (zeros is ZeroKind.SKIP and any(coded[n] for n in missing)):
            name = "gated" if zeros is ZeroKind.GATE else "skipped"
            setattr(tally, name, getattr(tally, name) + 1)
        else:
            tally.actual += 1
    return tally, result


def _points(walk: Walk) -> Iterator[tuple[dict[str, int], Instance, Moment]]:
    """Every iteration: its index, the MAC unit, the moment."""
    outside = walk.spatial_outside(len(walk.architecture.levels))
    for at, _ in walk.steps(len(walk.loops), Reuse.WALK):
        moment = tuple(sorted(at.items()))
        for instance in itertools.product(*(range(x.factor) for x in outside)):
            yield walk.base(at, {x.depth: k for x, k in zip(outside, instance, strict=True)}), instance, moment
