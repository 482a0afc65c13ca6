"""The oracle for imperfect factors: walks a nest step by step, leaves out what starts at or beyond a bound, counts what moves.

No closed form is used; rules I1 to I9 of docs/reference/cost-model.md are applied literally. For small problems.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from codesign.arch.architecture import Architecture, Ports
from codesign.cost.arrays import Reuse
from codesign.mapping.mapping import Mapping, Spatial, Storage
from codesign.mapping.validate import check_mapping
from codesign.workloads.computation import Computation, Tensor

Word = tuple[int, ...]
Instance = tuple[int, ...]  # iteration of every spatial loop outside the level


@dataclass(frozen=True)
class _Loop:
    """A loop with the size of one of its steps; level -1 is temporal."""

    dim: str
    factor: int
    step: int
    level: int
    depth: int


@dataclass
class Traffic:
    """What one tensor does at one level, by instance, and what crosses the fan-outs below: (sent, received) by level."""

    reads: Counter[Instance] = field(default_factory=Counter)
    fills: Counter[Instance] = field(default_factory=Counter)
    updates: Counter[Instance] = field(default_factory=Counter)


@dataclass(frozen=True)
class Walked:
    """What the walk counted.

    Args:
        traffic: By (level, tensor).
        links: Words (sent, received) by (level whose fan-out they cross, tensor).
        steps: Steps in which some MAC works.
        macs: Every point of the iteration space with how often it was computed.
    """

    traffic: dict[tuple[int, str], Traffic]
    links: dict[tuple[int, str], tuple[int, int]]
    steps: int
    macs: Counter[Word]

    def totals(self, level: int, tensor: str) -> tuple[int, int, int]:
        """Reads, fills and updates over all instances."""
        found = self.traffic[level, tensor]
        return found.reads.total(), found.fills.total(), found.updates.total()


class _Nest:
    """The loops of a mapping, where its tensors stand, and the tiles at any iteration."""

    def __init__(self, computation: Computation, architecture: Architecture, mapping: Mapping) -> None:
        check_mapping(computation, architecture, mapping, imperfect=True)
        self.computation, self.architecture = computation, architecture
        self.place: dict[tuple[int, str], int] = {}
        sizes = dict.fromkeys(computation.dims, 1)
        loops: list[_Loop] = []
        total = len(mapping.loops)
        for node in reversed(mapping.nodes):
            if isinstance(node, Storage):
                self.place[architecture.level_index[node.level], node.tensor] = total - len(loops)
                continue
            level = architecture.level_index[node.level] if isinstance(node, Spatial) else -1
            loops.append(_Loop(node.dim, node.factor, sizes[node.dim], level, total - len(loops) - 1))
            sizes[node.dim] *= node.factor
        self.loops = loops[::-1]
        self.perfect = {d: sizes[d] == bound for d, bound in computation.sizes.items()}

    def temporal(self, depth: int) -> list[_Loop]:
        """Temporal loops outside a place, outermost first."""
        return [x for x in self.loops[:depth] if x.level < 0]

    def spatial(self, level: int) -> list[_Loop]:
        """Spatial loops that tell the instances of a level apart."""
        return [x for x in self.loops if 0 <= x.level < level]

    def start(self, loops: list[_Loop], at: tuple[int, ...]) -> dict[str, int]:
        """Where every dimension starts at these iterations."""
        base = dict.fromkeys(self.computation.dims, 0)
        for loop, k in zip(loops, at, strict=True):
            base[loop.dim] += loop.step * k
        return base

    def begins(self, base: dict[str, int]) -> bool:
        """Whether there is work at this start (rule I1)."""
        return all(base[d] < bound for d, bound in self.computation.sizes.items())

    def steps(self, depth: int) -> Iterator[tuple[int, ...]]:
        """Iterations of the temporal loops outside a place that exist (rule I3)."""
        loops = self.temporal(depth)
        for at in itertools.product(*(range(x.factor) for x in loops)):
            if self.begins(self.start(loops, at)):
                yield at

    def tile(self, tensor: Tensor, depth: int, base: dict[str, int]) -> frozenset[Word]:
        """Words of the box that an instance holds, cut at the bounds (rules C1 and I2)."""
        sizes = dict.fromkeys(self.computation.dims, 1)
        for loop in self.loops[depth:]:
            sizes[loop.dim] *= loop.factor
        sizes = {d: min(size, self.computation.sizes[d] - base[d]) for d, size in sizes.items()}
        corner = [sum(c * base[d] for d, c in axis.terms) for axis in tensor.axes]
        return frozenset(
            itertools.product(
                *(range(lo, lo + axis.extent(sizes)) for lo, axis in zip(corner, tensor.axes, strict=True))
            )
        )


def walk_imperfect(
    computation: Computation, architecture: Architecture, mapping: Mapping, reuse: Reuse = Reuse.TIMELOOP
) -> Walked:
    """Walk a nest whose factors may multiply to more than the bounds.

    Args:
        computation: Small.
        architecture: The hardware, its links multicast, systolic or none.
        mapping: The nest.
        reuse: `TIMELOOP` and `WALK` are one rule here; `WHOLE`.

    Raises:
        UserError: The mapping is malformed.
    """
    nest = _Nest(computation, architecture, mapping)
    n_levels = len(architecture.levels)
    traffic: dict[tuple[int, str], Traffic] = {}
    links: dict[tuple[int, str], tuple[int, int]] = {}
    for tensor in computation.tensors:
        chain = sorted(v for v, name in nest.place if name == tensor.name)
        for v in chain:
            traffic[v, tensor.name] = Traffic()
        for parent, child in itertools.pairwise([*chain, n_levels]):
            _cross(nest, tensor, parent, child, reuse, traffic, links)
        if tensor.is_output:
            for v in chain:
                for instance, words in _held(nest, tensor, v).items():
                    traffic[v, tensor.name].reads[instance] -= words
                    if v != chain[0]:
                        traffic[v, tensor.name].fills[instance] -= words
    macs: Counter[Word] = Counter()
    for at in itertools.product(*(range(x.factor) for x in nest.loops)):
        base = nest.start(nest.loops, at)
        if nest.begins(base):
            macs[tuple(base[d] for d in computation.dims)] += 1
    return Walked(traffic, links, sum(1 for _ in nest.steps(len(nest.loops))), macs)


def walked_ports(walked: Walked, computation: Computation, architecture: Architecture) -> list[Fraction]:
    """Cycles in which the ports of the busiest instance of each level are busy (rules L2, L4 and I8), not rounded up."""
    busiest = []
    for v, level in enumerate(architecture.levels):
        read: dict[Instance, Fraction] = defaultdict(Fraction)
        written: dict[Instance, Fraction] = defaultdict(Fraction)
        for tensor in computation.tensors:
            if (v, tensor.name) not in walked.traffic:
                continue
            words = Fraction(level.element_bits(tensor.bits if v == 0 else tensor.partial_bits), level.word_bits)
            found = walked.traffic[v, tensor.name]
            for instance, count in found.reads.items():
                read[instance] += words * count
            for count_of in (found.fills, found.updates):
                for instance, count in count_of.items():
                    written[instance] += words * count
        most = Fraction(0)
        for instance in {*read, *written}:
            sides = zip((read[instance], written[instance]), level.words_per_cycle, strict=True)
            busy = [words / Fraction(rate) for words, rate in sides if rate is not None]
            both = sum(busy, Fraction(0)) if level.ports is Ports.SHARED else max(busy, default=Fraction(0))
            most = max(most, both)
        busiest.append(most)
    return busiest


def _cross(
    nest: _Nest,
    tensor: Tensor,
    parent: int,
    child: int,
    reuse: Reuse,
    traffic: dict[tuple[int, str], Traffic],
    links: dict[tuple[int, str], tuple[int, int]],
) -> None:
    """Everything that crosses between a level that keeps a tensor and the next one in that does, or the MACs."""
    at_macs = child == len(nest.architecture.levels)
    depth = len(nest.loops) if at_macs else nest.place[child, tensor.name]
    temporal, spatial = nest.temporal(depth), nest.spatial(child)
    held: dict[Instance, frozenset[Word]] = {}
    counts: dict[int, list[int]] = {m: [0, 0] for m in range(parent, child)}
    for at in nest.steps(depth):
        wanted: dict[Instance, int] = {}
        for instance in itertools.product(*(range(x.factor) for x in spatial)):
            base = nest.start([*temporal, *spatial], (*at, *instance))
            if not nest.begins(base):
                continue  # idle in this pass (rule I4)
            tile = nest.tile(tensor, depth, base)
            fetched = tile if at_macs else _fetched(tensor, temporal, at, tile, held.get(instance), reuse)
            held[instance] = tile
            wanted[instance] = len(fetched)
            if not at_macs:
                traffic[child, tensor.name].fills[instance] += len(fetched)
        for m in range(child - 1, parent - 1, -1):
            counts[m][1] += sum(wanted.values())
            wanted = _served(nest, tensor, m, wanted)
            counts[m][0] += sum(wanted.values())
        for instance, words in wanted.items():
            traffic[parent, tensor.name].reads[instance] += words
            if tensor.is_output:
                traffic[parent, tensor.name].updates[instance] += words
    links |= {(m, tensor.name): (sent, received) for m, (sent, received) in counts.items()}


def _fetched(
    tensor: Tensor,
    temporal: list[_Loop],
    at: tuple[int, ...],
    tile: frozenset[Word],
    held: frozenset[Word] | None,
    reuse: Reuse,
) -> frozenset[Word]:
    """What a buffer fetches when the innermost loop that is not at its first iteration has just stepped (rule I5)."""
    stepped = max((i for i, k in enumerate(at) if k > 0), default=-1)
    if stepped < 0 or held is None:
        return tile
    named = {d for axis in tensor.axes for d, _ in axis.terms}
    if not any(loop.dim in named for loop in temporal[stepped:]):
        return frozenset()
    if stepped == len(temporal) - 1 and reuse is not Reuse.WHOLE:
        return tile - held
    return tile


def _served(nest: _Nest, tensor: Tensor, m: int, wanted: dict[Instance, int]) -> dict[Instance, int]:
    """What each instance of level m sends its children; those that differ in nothing but reused iterations share (rules I6, I7)."""
    loops = nest.spatial(m + 1)
    width = len(nest.spatial(m))
    shares = nest.architecture.levels[m].fanout.shares
    groups: dict[Instance, dict[object, int]] = defaultdict(dict)
    for number, (instance, words) in enumerate(wanted.items()):
        key: object = number if not shares else _offset(nest, tensor, loops[width:], instance[width:])
        groups[instance[:width]][key] = max(words, groups[instance[:width]].get(key, 0))
    return {outer: sum(found.values()) for outer, found in groups.items()}


def _offset(nest: _Nest, tensor: Tensor, loops: list[_Loop], at: tuple[int, ...]) -> object:
    """What tells apart the children of a fan-out that want different words of a tensor."""
    key: list[object] = []
    for axis in tensor.axes:
        coefficient = dict(axis.terms)
        here = [(x, k) for x, k in zip(loops, at, strict=True) if x.dim in coefficient]
        dims = {x.dim for x, _ in here}
        if len(dims) == 2 and all(nest.perfect[d] for d in dims):
            key.append(sum(coefficient[x.dim] * x.step * k for x, k in here))
        else:
            key.append(tuple(k for _, k in here))
    return tuple(key)


def _held(nest: _Nest, tensor: Tensor, level: int) -> dict[Instance, int]:
    """Different words that each instance of a level ever holds."""
    depth = nest.place[level, tensor.name]
    temporal, spatial = nest.temporal(depth), nest.spatial(level)
    found: dict[Instance, int] = {}
    for instance in itertools.product(*(range(x.factor) for x in spatial)):
        seen: set[Word] = set()
        for at in nest.steps(depth):
            base = nest.start([*temporal, *spatial], (*at, *instance))
            if nest.begins(base):
                seen |= nest.tile(tensor, depth, base)
        found[instance] = len(seen)
    return found
