"""Expected actual, gated and skipped accesses of one mapping, and its cycles (laws E1-E6 of docs/reference/sparsity.md)."""

import itertools
import math
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.arch.sparsity import TensorFormat, ZeroKind
from codesign.cost.arrays import Reuse, encode_problem
from codesign.cost.columns import FILLS, READS, UPDATES
from codesign.cost.kernel import score
from codesign.cost.packed import make_kernel
from codesign.cost.sparse.bounds import Shares, value_bits
from codesign.cost.sparse.intersection import (
    Positions,
    Saving,
    correlation,
    level_formats,
    packed_positions,
    savings,
    spatial_savings,
)
from codesign.cost.sparse.metadata import RankUnits, tile_units
from codesign.cost.sparse.nest_view import NestView, Place
from codesign.mapping.mapping import Mapping, Spatial
from codesign.mapping.nest import encode_nest
from codesign.workloads.computation import Computation, Tensor


class Reading(Enum):
    """How some figures are read (laws E1, E5, F8).

    OWN: Of all instances that exist; a gated access holds up the MACs behind it.
    SPARSELOOP: As that tool prints them: of instances whose tile holds something; MACs behind gated reads vanish; the first fill of
        a partial sum counts.
    """

    OWN = "own"
    SPARSELOOP = "sparseloop"


@dataclass(frozen=True)
class Accesses:
    """What becomes of some accesses; the rest of the dense ones never existed (their values are not stored).

    Args:
        actual: Happen.
        gated: Take their time but no data move.
        skipped: Left out.
    """

    actual: float = 0.0
    gated: float = 0.0
    skipped: float = 0.0

    def without(self, kept: float, kind: ZeroKind) -> "Accesses":
        """The same where only a fraction of the actual ones is kept."""
        lost = self.actual * (1.0 - kept)
        if kind is ZeroKind.GATE:
            return Accesses(self.actual - lost, self.gated + lost, self.skipped)
        return Accesses(self.actual - lost, self.gated, self.skipped + lost)

    def times(self, factor: float) -> "Accesses":
        """The actual, gated and skipped accesses, each times a factor."""
        return Accesses(self.actual * factor, self.gated * factor, self.skipped * factor)


NONE = Accesses()


@dataclass(frozen=True)
class RankAccesses:
    """Accesses to the metadata of one rank.

    Args:
        units: The entries of a tile.
        metadata: Coordinates, run lengths, bits.
        payload: Pointers.
    """

    units: RankUnits
    metadata: Accesses
    payload: Accesses

    def actual_bits(self, width: int, word: int | None) -> float:
        """Bits of metadata that move after gating and skipping."""
        return replace(self.units, metadata=self.metadata.actual, payload=self.payload.actual).bits(width, word)

    def bits(self, width: int, word: int | None) -> float:
        """Bits that move or are gated."""
        moved = replace(self.units, metadata=_timed(self.metadata), payload=_timed(self.payload))
        return moved.bits(width, word)


def _timed(accesses: Accesses) -> float:
    return accesses.actual + accesses.gated


@dataclass(frozen=True)
class Flow:
    """One kind of access (reads, fills or updates) of a stored tensor, of one instance in use.

    Args:
        dense: Were there no zeros.
        data: Values.
        ranks: Metadata, innermost rank first.
    """

    dense: float
    data: Accesses
    ranks: tuple[RankAccesses, ...] = ()

    def scaled(self, kept: float) -> "Flow":
        """Only a fraction arrives here at all (law E3)."""
        return replace(self, data=self.data.times(kept))

    def left_out(self, kept: float, kind: ZeroKind, child_ranks: int) -> "Flow":
        """Only a fraction is done here (law E2); metadata of the outer ranks stay."""
        ranks = tuple(
            replace(x, metadata=x.metadata.without(kept, kind), payload=x.payload.without(kept, kind))
            if r < child_ranks
            else x
            for r, x in enumerate(self.ranks)
        )
        return replace(self, data=self.data.without(kept, kind), ranks=ranks)


@dataclass(frozen=True)
class SparseTraffic:
    """A tensor at a level.

    Args:
        level: Index of the level.
        tensor: Its name.
        instances: Expected instances in use.
        virtual_instances: Instances the mapping gives work to.
        tile_words: Elements of a dense tile.
        held_words: Expected non-zeros of a tile that is not empty; all elements where it is not compressed.
        metadata_bits: Expected metadata of such a tile.
        held_bits: Expected bits of a tile, empty or not.
        overflow: Probability that a tile has more non-zeros than fit beside what else the level holds by expectation.
        reads: Sent inwards; for outputs old partial sums.
        fills: From the parent.
        updates: From the child.
    """

    level: int
    tensor: str
    instances: float
    virtual_instances: int
    tile_words: int
    held_words: float
    metadata_bits: float
    held_bits: float
    overflow: float
    reads: Flow
    fills: Flow
    updates: Flow


@dataclass(frozen=True)
class SparseCounts:
    """The expectation for one mapping.

    Args:
        traffic: Every stored tensor, levels outermost first.
        macs: What becomes of the MACs.
        dense_macs: All of them.
        compute_cycles: Cycles of the MAC array (law E5).
        level_cycles: Cycles in which the busiest port of an instance is busy, by level (law E6).
    """

    traffic: tuple[SparseTraffic, ...]
    macs: Accesses
    dense_macs: int
    compute_cycles: int
    level_cycles: tuple[int, ...]

    @property
    def latency_cycles(self) -> int:
        """Cycles of the slowest of the array and all ports."""
        return max(self.compute_cycles, *self.level_cycles)


@dataclass
class _Case:
    """What the steps of one expectation share."""

    view: NestView
    formats: dict[tuple[int, str], TensorFormat]
    savings: dict[tuple[int, str], Saving]
    spatial: dict[tuple[int, str], float]
    positions: dict[str, Positions]
    reading: Reading
    innermost: dict[str, Saving] = field(default_factory=dict)


def expect(
    computation: Computation,
    architecture: Architecture,
    mapping: Mapping,
    *,
    reuse: Reuse = Reuse.TIMELOOP,
    reading: Reading = Reading.OWN,
) -> SparseCounts:
    """Expected accesses and cycles of a mapping.

    Args:
        computation: The operator, its tensors with densities.
        architecture: The hardware, its levels with formats and actions.
        mapping: A valid nest for the two.
        reuse: What a buffer need not fetch again.
        reading: Whose conventions.

    Raises:
        UserError: A density or a format does not fit.
    """
    view = NestView(computation, architecture, mapping)
    for tensor in computation.tensors:
        tensor.density.check(view.whole(tensor))
    formats = level_formats(view)
    case = _Case(
        view,
        formats,
        savings(view),
        spatial_savings(view, formats),
        packed_positions(view),
        reading,
    )
    dense = _dense_counts(view, mapping, reuse, reading is Reading.SPARSELOOP)
    traffic = [x for tensor in computation.tensors for x in _tensor_traffic(case, tensor, dense)]
    traffic = [_with_overflow(case, x, traffic) for x in sorted(traffic, key=lambda x: x.level)]
    macs = _macs(case)
    cycles = math.ceil(_timed(macs) / _mac_instances(case) * (1.0 - 1e-12))
    levels = tuple(_port_cycles(case, v, traffic) for v in range(len(architecture.levels)))
    return SparseCounts(tuple(traffic), macs, computation.macs, cycles, levels)


Dense = dict[tuple[int, str], tuple[float, float, float]]


def _dense_counts(view: NestView, mapping: Mapping, reuse: Reuse, first_fills: bool) -> Dense:
    """Reads, fills and updates of one instance without zeros, from the kernel (law E1)."""
    problem = encode_problem(view.computation, view.architecture, reuse)
    nest = encode_nest(view.computation, view.architecture, mapping)
    unbounded = problem._replace(capacity_bits=problem.capacity_bits * 0 + (1 << 62))
    kernel = make_kernel(unbounded, nest.loops.shape[0])
    score(kernel, nest, nest.loops.shape[0])
    found: Dense = {}
    for t, tensor in enumerate(view.computation.tensors):
        outermost = min(v for v, name in view.places if name == tensor.name)
        for v in (v for v, name in view.places if name == tensor.name):
            reads, fills, updates = (float(kernel.counts[v, t, c]) for c in (READS, FILLS, UPDATES))
            if tensor.is_output and first_fills and v != outermost:
                fills += updates - reads
            found[v, tensor.name] = reads, fills, updates
    return found


def _tensor_traffic(case: _Case, tensor: Tensor, dense: Dense) -> list[SparseTraffic]:
    """One tensor from its outermost level inwards; what is left out further out never arrives (law E3)."""
    found = []
    arriving = 1.0
    for v in sorted(level for level, name in case.view.places if name == tensor.name):
        place = case.view.places[v, tensor.name]
        stored = _stored(case, place, dense[v, tensor.name])
        reads, fills, updates = (flow.scaled(arriving) for flow in (stored.reads, stored.fills, stored.updates))
        saving = case.savings.get((v, tensor.name))
        if saving is not None:
            kept = saving.kept * correlation(case.view.computation, [*(t for t, _ in saving.leaders), tensor])
            kept = min(1.0, kept / correlation(case.view.computation, [t for t, _ in saving.leaders]))
            here = min(1.0, kept / arriving)
            child = (place.child, tensor.name)
            ranks = len(case.formats[child].ranks) if place.child is not None and child in case.formats else 0
            ranks = len(stored.reads.ranks) if place.child is None else ranks
            reads = reads.left_out(here, saving.kind, ranks)
            updates = updates.left_out(here, saving.kind, ranks)
            arriving = min(arriving, kept)
            case.innermost[tensor.name] = saving
        found.append(replace(stored, reads=reads, fills=fills, updates=updates))
    return found


def _stored(case: _Case, place: Place, dense: tuple[float, float, float]) -> SparseTraffic:
    """Accesses to what the format stores, before any action (laws F6 and E1)."""
    view, tensor = case.view, place.tensor
    tile, whole = view.tile(place), view.whole(tensor)
    words = math.prod(tile)
    kept = case.formats.get((place.level, tensor.name))
    used, full, held = _spatial_share(case, place), 1.0, 1.0
    units: tuple[RankUnits, ...] = ()
    if kept is not None:
        full = 1.0 - tensor.density.empty(tile, whole)
        held = tensor.density.fraction(whole) if kept.compressed else 1.0
        units = tile_units(view, place, case.formats)
        used = full if case.reading is Reading.SPARSELOOP else used
    live = 1.0 / used if used else 0.0
    steps = math.prod(
        p.steps for name, p in case.positions.items() if name != tensor.name and p.place.level == place.level
    )
    level = view.architecture.levels[place.level]
    metadata = sum(u.bits(level.sparsity.metadata_bits, level.sparsity.metadata_word_bits) for u in units)
    stays = held if kept is not None and kept.compressed else 1.0
    flows = []
    for kind, count in enumerate(dense):
        packed = steps if kind == 0 else 1.0
        rounds = count / words
        ranks = tuple(
            RankAccesses(
                u,
                Accesses(_entries(case, u.metadata * full * live * rounds)),
                Accesses(_entries(case, u.payload * full * live * rounds)),
            )
            for u in units
        )
        live_data = live if kept is not None or case.reading is Reading.OWN else 1.0
        flows.append(Flow(count, Accesses(count * stays * live_data * packed), ranks))
    return SparseTraffic(
        level=place.level,
        tensor=tensor.name,
        instances=view.virtual_instances(place.level) * used,
        virtual_instances=view.virtual_instances(place.level),
        tile_words=words,
        held_words=words * held / full if full else 0.0,
        metadata_bits=metadata,
        held_bits=words * stays * value_bits(level, tensor, outermost=place.level == 0) + metadata * full,
        overflow=0.0,
        reads=flows[0],
        fills=flows[1],
        updates=flows[2],
    )


def _with_overflow(case: _Case, own: SparseTraffic, traffic: list[SparseTraffic]) -> SparseTraffic:
    """The chance that a compressed tile does not fit the room the others leave it (law E7)."""
    level = case.view.architecture.levels[own.level]
    kept = case.formats.get((own.level, own.tensor))
    if level.capacity_bits is None or kept is None or not kept.compressed:
        return own
    room = level.capacity_bits - sum(x.held_bits for x in traffic if x.level == own.level and x.tensor != own.tensor)
    place = case.view.places[own.level, own.tensor]
    tensor = place.tensor
    held = tensor.density.occupancy(case.view.tile(place), case.view.whole(tensor))
    mean = held.expected(held.nonzeros)
    return replace(own, overflow=held.over(room / (own.held_bits / mean)) if mean else 0.0)


def _entries(case: _Case, count: float) -> float:
    """Sparseloop counts whole metadata entries (law F6)."""
    return float(math.ceil(count - 1e-6)) if case.reading is Reading.SPARSELOOP else count


def _spatial_share(case: _Case, place: Place) -> float:
    """Fraction of a level's instances that spatial skipping further out leaves in use."""
    return min((kept for (v, _), kept in case.spatial.items() if v < place.level), default=1.0)


def _mac_instances(case: _Case) -> float:
    """MAC units in use on average (law E5)."""
    units = math.prod(x.factor for x in case.view.loops if isinstance(x, Spatial))
    share = min(case.spatial.values(), default=1.0)
    return units * share * math.prod(p.busy for p in case.positions.values())


def _macs(case: _Case) -> Accesses:
    """What becomes of the MACs: pairs that meet, pairs of which one is missing, pairs that never form (law E4)."""
    computation = case.view.computation
    remaining = float(computation.macs)
    density = {t.name: t.density.fraction(case.view.whole(t)) for t in computation.inputs}
    effectual = remaining * math.prod(density.values()) * correlation(computation, computation.inputs)
    met = dict.fromkeys(density, 1.0)
    idle = 0.0
    for tensor in computation.inputs:
        saving = case.innermost.get(tensor.name)
        if saving is not None:
            idle += (
                remaining * (1.0 - saving.kept) if saving.kind is ZeroKind.GATE and case.reading is Reading.OWN else 0.0
            )
            remaining *= saving.kept
            for leader, tile in saving.leaders:
                full = 1.0 - leader.density.empty(tile, case.view.whole(leader))
                met[leader.name] = min(met.get(leader.name, 1.0), full)
        spatial = min((k for (_, name), k in case.spatial.items() if name == tensor.name), default=None)
        if spatial is not None:
            remaining *= spatial
            for leader in computation.inputs:
                if leader != tensor and not math.isclose(spatial, 1.0):
                    met[leader.name] = min(met[leader.name], spatial)
        if tensor.name in case.positions:
            remaining *= density[tensor.name]
            met[tensor.name] = density[tensor.name]
    given = {t: min(1.0, density[t] / met[t]) if met[t] else 0.0 for t in density}
    met_macs = _split_macs(case, remaining, effectual, given)
    return replace(met_macs, gated=met_macs.gated + idle)


def _split_macs(case: _Case, remaining: float, effectual: float, density: dict[str, float]) -> Accesses:
    """The remaining MACs by what their operands are: a non-zero, a stored zero, or nothing (law E4)."""
    view, zeros = case.view, case.view.architecture.mac.zeros
    actual, gated, skipped = effectual, 0.0, 0.0
    chance_both = math.prod(density.values())
    rest = max(0.0, remaining - actual)
    for holds in itertools.product((True, False), repeat=len(density)):
        if all(holds):
            continue
        chance = math.prod(d if there else 1.0 - d for d, there in zip(density.values(), holds, strict=True))
        share = rest * chance / (1.0 - chance_both) if chance_both < 1.0 else 0.0
        stored = [
            _stores_zeros(case, view.computation.tensor(name))
            for name, there in zip(density, holds, strict=True)
            if not there
        ]
        if len(stored) == len(density) and not any(stored):
            continue  # the pair never forms
        if all(stored):
            actual, gated = (actual, gated + share) if zeros is ZeroKind.GATE else (actual + share, gated)
        elif zeros is ZeroKind.SKIP:
            skipped += share
        elif zeros is ZeroKind.GATE:
            gated += share
        else:
            actual += share
    return Accesses(actual, gated, skipped)


def _stores_zeros(case: _Case, tensor: Tensor) -> bool:
    """Whether a zero of the operand reaches the MAC as a value: its innermost level has no format."""
    innermost = max(v for v, name in case.view.places if name == tensor.name)
    return (innermost, tensor.name) not in case.formats


def _port_cycles(case: _Case, v: int, traffic: list[SparseTraffic]) -> int:
    """Cycles in which the busiest port of an instance of a level is busy (law E6)."""
    level = case.view.architecture.levels[v]
    read, written = 0.0, 0.0
    for x in (x for x in traffic if x.level == v):
        tensor = case.view.computation.tensor(x.tensor)
        width = value_bits(level, tensor, outermost=v == 0) / level.word_bits
        read += width * _timed(x.reads.data) + _metadata_words(case, v, (x.reads,))
        written += width * (_timed(x.fills.data) + _timed(x.updates.data)) + _metadata_words(
            case, v, (x.fills, x.updates)
        )
    return math.ceil(level.busy_cycles(read, written) * (1.0 - 1e-12))


def _metadata_words(case: _Case, v: int, flows: tuple[Flow, ...]) -> float:
    level = case.view.architecture.levels[v]
    widths = level.sparsity.metadata_bits, level.sparsity.metadata_word_bits
    bits = sum(rank.bits(*widths) for flow in flows for rank in flow.ranks)
    words = bits / level.word_bits
    return float(math.ceil(words - 1e-9)) if case.reading is Reading.SPARSELOOP else words


def shares_of(counts: SparseCounts, computation: Computation, architecture: Architecture) -> Shares:
    """What a mapping leaves of the dense problem: of every level's accesses, tiles and MACs.

    A level that does not keep a tensor hands on what the nearest one outside it sends.
    """
    moved = np.ones((len(architecture.levels), len(computation.tensors), 3))
    stored = np.ones(moved.shape[:2])
    index = {t.name: i for i, t in enumerate(computation.tensors)}
    for x in counts.traffic:
        level, t = architecture.levels[x.level], index[x.tensor]
        tensor = computation.tensors[t]
        bits = level.element_bits(tensor.bits if x.level == 0 else tensor.partial_bits)
        widths = level.sparsity.metadata_bits, level.sparsity.metadata_word_bits
        share = [
            (
                f.data.actual * value_bits(level, tensor, outermost=x.level == 0)
                + sum(r.actual_bits(*widths) for r in f.ranks)
            )
            / (f.dense * bits)
            if f.dense
            else 1.0
            for f in (x.reads, x.fills, x.updates)
        ]
        scale = x.instances / x.virtual_instances
        moved[x.level :, t] = np.array(share) * scale
        stored[x.level, t] = x.held_bits / (x.tile_words * bits)
    timed = _timed(counts.macs) / counts.dense_macs
    return Shares(moved, stored, counts.macs.actual / counts.dense_macs, timed)
