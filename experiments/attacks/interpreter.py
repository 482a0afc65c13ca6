"""The oracle: walks a loop nest iteration by iteration, keeps what every buffer holds, counts what moves.

No closed form is used here, so it is slow and meant for small problems: tests compare the kernel with it, and
`tests/property/executed_nest.py` runs a mapping on numbers. It applies the numbered rules of docs/reference/cost-model.md literally.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from codesign.arch.architecture import Architecture, Links
from codesign.cost.arrays import Reuse
from codesign.mapping.mapping import Mapping, Spatial, Storage
from codesign.mapping.validate import check_mapping
from codesign.workloads.computation import Computation, Tensor

Word = tuple[int, ...]
Words = frozenset[Word]
Instance = tuple[int, ...]  # iteration of every spatial loop outside the level


@dataclass(frozen=True)
class Counts:
    """What one tensor did at one level, summed over instances."""

    tile_words: int
    reads: int
    fills: int
    updates: int


@dataclass
class _Tally:
    reads: int = 0
    fills: int = 0
    updates: int = 0


@dataclass(frozen=True)
class _Loop:
    """A loop with the size of one of its steps along its dimension."""

    dim: str
    factor: int
    step: int
    level: int  # -1 temporal
    axis: str
    depth: int


@dataclass
class _Buffer:
    """What one instance holds, and how its tile last moved."""

    tile: Words = frozenset()
    corner: Word | None = None
    translation: Word | None = None


class Walk:
    """The nest of one mapping with helpers to enumerate its iterations."""

    def __init__(self, computation: Computation, architecture: Architecture, mapping: Mapping) -> None:
        check_mapping(computation, architecture, mapping)
        self.computation = computation
        self.architecture = architecture
        self.loops: list[_Loop] = []
        self.position: dict[tuple[int, str], int] = {}
        for node in mapping.nodes:
            if isinstance(node, Storage):
                self.position[architecture.level_index[node.level], node.tensor] = len(self.loops)
                continue
            level = architecture.level_index[node.level] if isinstance(node, Spatial) else -1
            axis = node.axis if isinstance(node, Spatial) else ""
            self.loops.append(_Loop(node.dim, node.factor, 0, level, axis, len(self.loops)))
        sizes = dict.fromkeys(computation.dims, 1)
        for i in range(len(self.loops) - 1, -1, -1):
            loop = self.loops[i]
            self.loops[i] = _Loop(loop.dim, loop.factor, sizes[loop.dim], loop.level, loop.axis, loop.depth)
            sizes[loop.dim] *= loop.factor

    def chain(self, tensor: Tensor) -> list[int]:
        """Levels that keep a tensor, outermost first."""
        return sorted(v for v, name in self.position if name == tensor.name)

    def spatial_outside(self, level: int) -> list[_Loop]:
        """Spatial loops that tell the instances of a level apart."""
        return [x for x in self.loops if 0 <= x.level < level]

    def instances(self, level: int) -> Iterator[Instance]:
        """Every instance of a level in use."""
        return itertools.product(*(range(x.factor) for x in self.spatial_outside(level)))

    def tile(self, tensor: Tensor, depth: int, base: dict[str, int]) -> tuple[Word, Words]:
        """Corner and words of the bounding box that the loops from `depth` inwards touch (rule C1)."""
        sizes = dict.fromkeys(self.computation.dims, 1)
        for loop in self.loops[depth:]:
            sizes[loop.dim] *= loop.factor
        corner = tuple(sum(c * base[d] for d, c in axis.terms) for axis in tensor.axes)
        ranges = [range(lo, lo + axis.extent(sizes)) for lo, axis in zip(corner, tensor.axes, strict=True)]
        return corner, frozenset(itertools.product(*ranges))

    def base(self, temporal: dict[int, int], spatial: dict[int, int]) -> dict[str, int]:
        """Start of every dimension at given iterations, by loop depth."""
        start = dict.fromkeys(self.computation.dims, 0)
        for loop in self.loops:
            start[loop.dim] += loop.step * (temporal.get(loop.depth, 0) + spatial.get(loop.depth, 0))
        return start

    def steps(self, depth: int, reuse: Reuse) -> Iterator[tuple[dict[int, int], int]]:
        """Iterations of the temporal loops outside `depth` in order, with how often each counts.

        With `Reuse.TIMELOOP` only iterations 0 and 1 of every loop are walked; the second stands for all later ones.
        """
        outside = [x for x in self.loops[:depth] if x.level < 0]

        def walk(i: int, at: dict[int, int], times: int) -> Iterator[tuple[dict[int, int], int]]:
            if i == len(outside):
                yield dict(at), times
                return
            loop = outside[i]
            for k in range(min(2, loop.factor) if reuse is Reuse.TIMELOOP else loop.factor):
                at[loop.depth] = k
                extrapolated = loop.factor - 1 if reuse is Reuse.TIMELOOP and k == 1 else 1
                yield from walk(i + 1, at, times * extrapolated)

        return walk(0, {}, 1)


def _enter(buffer: _Buffer, corner: Word, tile: Words, reuse: Reuse) -> Words:
    """Move a buffer to its next tile; returns the words it must fetch (rules R1-R4)."""
    fetched = tile
    if buffer.corner is not None:
        translation = tuple(a - b for a, b in zip(corner, buffer.corner, strict=True))
        if reuse is Reuse.WHOLE:
            fetched = tile if any(translation) else frozenset()
        elif reuse is Reuse.RESIDENT:
            fetched = tile - buffer.tile
        elif buffer.translation is None or buffer.translation == translation:
            fetched = tile - buffer.tile
            buffer.translation = translation
        else:
            buffer.translation = None
    buffer.corner, buffer.tile = corner, tile
    return fetched


def _sent(walk: Walk, parent: int, child: int, requests: dict[Instance, Words]) -> dict[Instance, int]:
    """Words each parent instance sends when its children make these requests at one step (rules S1-S3).

    Going outwards fan-out by fan-out, children with equal requests are served together where the links share.
    """
    streams: dict[Instance, object] = dict(requests)
    weight: dict[Instance, int] = {k: len(v) for k, v in requests.items()}
    for level in range(child - 1, parent - 1, -1):
        width = len(walk.spatial_outside(level))
        groups: dict[Instance, list[Instance]] = defaultdict(list)
        for instance in streams:
            groups[instance[:width]].append(instance)
        shares = walk.architecture.levels[level].fanout.shares
        next_streams: dict[Instance, object] = {}
        next_weight: dict[Instance, int] = {}
        for outer, members in groups.items():
            seen: dict[object, int] = {}
            for number, member in enumerate(members):
                seen[streams[member] if shares else number] = weight[member]
            next_streams[outer] = (
                frozenset(streams[m] for m in members) if shares else tuple(streams[m] for m in members)
            )
            next_weight[outer] = sum(seen.values())
        streams, weight = next_streams, next_weight
    return weight


def _neighbours(walk: Walk, level: int, instance: Instance) -> list[Instance]:
    """Children of the same parent one step away along x or y in the array under `level` (rule N4)."""
    outside = walk.spatial_outside(level + 1)
    width = len(walk.spatial_outside(level))
    inner = outside[width:]

    def coordinate(child: Instance, axis: str) -> int:
        place = 0
        for loop, k in zip(inner, child[width:], strict=True):
            if loop.axis == axis:
                place = place * loop.factor + k
        return place

    found = []
    here = (coordinate(instance, "x"), coordinate(instance, "y"))
    for rest in itertools.product(*(range(x.factor) for x in inner)):
        other = instance[:width] + rest
        there = (coordinate(other, "x"), coordinate(other, "y"))
        if abs(here[0] - there[0]) + abs(here[1] - there[1]) == 1:
            found.append(other)
    return found


def _ask_after_peers(
    walk: Walk, level: int, wanted: dict[Instance, Words], held: dict[Instance, Words], tiles: dict[Instance, Words]
) -> tuple[dict[Instance, Words], int]:
    """What is still asked of the parent when neighbours give what they held a step before, and what they gave (rule N4).

    Children with equal tiles ask together: for every word that at least one of them lacks.
    """
    width = len(walk.spatial_outside(level))
    given = 0
    lacking: dict[tuple[Instance, Words], set[Word]] = defaultdict(set)
    for instance, words in wanted.items():
        near: set[Word] = set()
        for other in _neighbours(walk, level, instance):
            near |= held[other]
        given += len(words & near)
        lacking[instance[:width], tiles[instance]] |= words - near
    asked = {i: frozenset(lacking[i[:width], tiles[i]]) for i in wanted}
    return asked, given


def interpret(
    computation: Computation, architecture: Architecture, mapping: Mapping, reuse: Reuse = Reuse.TIMELOOP
) -> dict[tuple[str, str], Counts]:
    """Counts by (level name, tensor name), found by walking the nest.

    Args:
        computation: Small: every buffer's every tile is held as a set of words.
        architecture: The hardware.
        mapping: A nest for the two.
        reuse: The switch of the kernel.

    Raises:
        UserError: The mapping is malformed.
    """
    walk = Walk(computation, architecture, mapping)
    result: dict[tuple[str, str], Counts] = {}
    for tensor in computation.tensors:
        chain = walk.chain(tensor)
        tallies = {v: _Tally() for v in chain}
        boundaries = list(zip(chain, [*chain[1:], len(architecture.levels)], strict=True))
        for parent, child in boundaries:
            _walk_boundary(walk, tensor, parent, child, reuse, tallies)
        for v in chain:
            _, words = walk.tile(tensor, walk.position[v, tensor.name], dict.fromkeys(computation.dims, 0))
            tally = tallies[v]
            counts = Counts(len(words), tally.reads, tally.fills, tally.updates)
            result[architecture.levels[v].name, tensor.name] = counts
    return result


def _walk_boundary(
    walk: Walk, tensor: Tensor, parent: int, child: int, reuse: Reuse, tallies: dict[int, _Tally]
) -> None:
    """Everything that crosses between a level that keeps a tensor and the next one in that does (or the MACs)."""
    is_mac = child == len(walk.architecture.levels)
    depth = len(walk.loops) if is_mac else walk.position[child, tensor.name]
    outside = walk.spatial_outside(child)
    buffers = {i: _Buffer() for i in walk.instances(child)}
    peers = not is_mac and child == parent + 1 and not tensor.is_output
    peers = peers and walk.architecture.levels[parent].fanout.links is Links.PEER
    crossed = 0
    for at, times in walk.steps(depth, reuse):
        held = {i: b.tile for i, b in buffers.items()}
        requests: dict[Instance, Words] = {}
        for instance, buffer in buffers.items():
            spatial = {loop.depth: k for loop, k in zip(outside, instance, strict=True)}
            corner, tile = walk.tile(tensor, depth, walk.base(at, spatial))
            if is_mac:
                requests[instance] = tile  # a MAC remembers nothing (rule T1)
            else:
                requests[instance] = _enter(buffer, corner, tile, reuse)
                tallies[child].fills += times * len(requests[instance])
        if peers:
            tiles = {i: b.tile for i, b in buffers.items()}
            requests, given = _ask_after_peers(walk, parent, requests, held, tiles)
            tallies[child].reads += times * given
        crossed += times * sum(_sent(walk, parent, child, requests).values())
    if not tensor.is_output:
        tallies[parent].reads += crossed
        return
    # every word that enters a child leaves it again as an update; the first visit finds nothing to read (rules O1-O4)
    tallies[parent].updates += crossed
    tallies[parent].reads += crossed - _visited(walk, tensor, parent)
    if not is_mac:
        tallies[child].fills -= _visited(walk, tensor, child)


def _visited(walk: Walk, tensor: Tensor, level: int) -> int:
    """Words that the instances of a level ever hold, summed over instances (rule O3)."""
    depth = walk.position[level, tensor.name]
    outside = walk.spatial_outside(level)
    total = 0
    for instance in walk.instances(level):
        spatial = {loop.depth: k for loop, k in zip(outside, instance, strict=True)}
        seen: set[Word] = set()
        for at, _ in walk.steps(depth, Reuse.WALK):
            seen |= walk.tile(tensor, depth, walk.base(at, spatial))[1]
        total += len(seen)
    return total
