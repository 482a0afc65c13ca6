"""The readable cost of one mapping, built from the kernel's arrays."""

import math
from dataclasses import asdict, dataclass, replace

from codesign.arch.architecture import Architecture
from codesign.core.json_types import JsonObject
from codesign.cost.arrays import Problem, Reuse, encode_problem
from codesign.cost.columns import CYCLES, FILLS, INSTANCES, MESH, NETWORK, READS, TILE, UPDATES
from codesign.cost.imperfect import compute_steps, refuse_imperfect
from codesign.cost.kernel import score
from codesign.cost.packed import OVER_CAPACITY, VALID, Kernel, make_kernel
from codesign.cost.sparse.bounds import FIXED_POINT, is_rescaled, is_sparse, rescale
from codesign.cost.sparse.expectation import SparseTraffic, expect, shares_of
from codesign.mapping.mapping import Mapping, format_nest
from codesign.mapping.nest import BYPASSED, FACTOR, LEVEL, Nest, encode_nest
from codesign.mapping.validate import check_mapping
from codesign.workloads.computation import Computation

COMPUTE = "compute"
"""The MACs among the resources that may bound the latency."""


@dataclass(frozen=True)
class ZeroTraffic:
    """What zeros do to one tensor at one level (docs/reference/sparsity.md). Totals over all instances, expected.

    Args:
        dense_reads: Reads were there no zeros.
        gated_reads: Reads that take their time and no energy.
        skipped_reads: Reads left out.
        gated_updates: Updates that take their time and no energy.
        skipped_updates: Updates left out.
        metadata_bits: Bits of metadata read, filled and updated.
        held_words: Non-zeros in a tile that is not empty.
        overflow: Probability that a tile does not fit.
    """

    dense_reads: int
    gated_reads: float
    skipped_reads: float
    gated_updates: float
    skipped_updates: float
    metadata_bits: float
    held_words: float
    overflow: float


@dataclass(frozen=True)
class ZeroMacs:
    """What becomes of the MACs.

    Args:
        actual: Done.
        gated: Take a cycle and no energy.
        skipped: Left out at the array.
        units: MAC units the mapping gives work to.
    """

    actual: float
    gated: float
    skipped: float
    units: int


@dataclass(frozen=True)
class TensorTraffic:
    """What one tensor does at one level. Counts are elements, totals over all instances in use.

    Args:
        tensor: Its name.
        tile_words: Elements one instance holds at a time.
        reads: Elements read (sent inwards; for outputs also old partial sums read to be added to).
        fills: Elements that arrived from the parent.
        updates: Elements that arrived from below (partial sums).
        energy_pj: Of these accesses.
        zeros: What zeros do, where the hardware knows them; the counts above are then the actual ones, expected.
    """

    tensor: str
    tile_words: int
    reads: int
    fills: int
    updates: int
    energy_pj: float
    zeros: ZeroTraffic | None = None


@dataclass(frozen=True)
class LevelCost:
    """What happens at one level.

    Args:
        level: Its name.
        instances: Instances in use.
        tensors: Those kept here.
        energy_pj: Of all their accesses.
        network_pj: Energy of the interconnect below this level.
        cycles: Cycles the run takes if only computing and this level limit it, as Timeloop prints it.
        busy_cycles: Cycles in which the busiest port of an instance is busy; 0 where bandwidth is unlimited (rules L2 and L4).
        used_bytes: Bytes one instance holds.
        capacity_bytes: Bytes one instance has; None is unbounded.
        mesh_cycles: Cycles that the busiest link or port of the mesh below passes flits; None where there is no mesh (rule N9).
    """

    level: str
    instances: int
    tensors: tuple[TensorTraffic, ...]
    energy_pj: float
    network_pj: float
    cycles: int
    busy_cycles: int
    used_bytes: float
    capacity_bytes: float | None
    mesh_cycles: int | None = None


@dataclass(frozen=True)
class Cost:
    """Access counts, energy and latency of one mapping.

    Args:
        latency_cycles: The slowest of compute and every level's bandwidth.
        compute_cycles: MACs over MAC units in use.
        energy_pj: Dynamic energy: MACs, accesses, interconnect.
        macs: Multiply-accumulates.
        mac_energy_pj: Their energy.
        mac_units: MAC units of the architecture.
        levels: One entry a level, outermost first.
        dram_bytes: Bytes that cross the port of the outermost level.
        loop_nest: The mapping as text.
        zero_macs: What becomes of the MACs where the hardware knows zeros.
    """

    latency_cycles: int
    compute_cycles: int
    energy_pj: float
    macs: int
    mac_energy_pj: float
    mac_units: int
    levels: tuple[LevelCost, ...]
    dram_bytes: float
    loop_nest: str
    zero_macs: ZeroMacs | None = None

    @property
    def edp(self) -> float:
        """Energy-delay product in pJ x cycle."""
        return self.energy_pj * self.latency_cycles

    @property
    def utilization(self) -> float:
        """MACs per MAC unit and cycle."""
        done = self.macs if self.zero_macs is None else self.zero_macs.actual
        return done / (self.latency_cycles * self.mac_units)

    @property
    def units_used(self) -> int:
        """MAC units the mapping gives work to."""
        return self.macs // self.compute_cycles if self.zero_macs is None else self.zero_macs.units

    @property
    def bottleneck(self) -> str:
        """The first of `bottlenecks`."""
        return self.bottlenecks[0]

    @property
    def bottlenecks(self) -> tuple[str, ...]:
        """All that bounds the latency: ``compute``, levels whose ports are busy throughout; several at equal cycles."""
        busy = {COMPUTE: self.compute_cycles, **{v.level: v.busy_cycles for v in self.levels}}
        busy |= {f"mesh below {v.level}": v.mesh_cycles for v in self.levels if v.mesh_cycles is not None}
        return tuple(name for name, cycles in busy.items() if cycles == self.latency_cycles)

    def to_json(self) -> JsonObject:
        """The form `codesign evaluate --format json` prints."""
        return {
            "status": "ok",
            "latency_cycles": self.latency_cycles,
            "utilization": self.utilization,
            "energy_pj": self.energy_pj,
            "edp": self.edp,
            "bottleneck": self.bottleneck,
            "bottlenecks": list(self.bottlenecks),
            "dram_bytes": self.dram_bytes,
            "compute": {
                "macs": self.macs,
                "energy_pj": self.mac_energy_pj,
                "cycles": self.compute_cycles,
                **({} if self.zero_macs is None else asdict(self.zero_macs)),
            },
            "levels": {v.level: _level_json(v) for v in self.levels},
            "loopnest": self.loop_nest,
        }


def _level_json(level: LevelCost) -> JsonObject:
    tensors = {
        t.tensor: {
            "reads": t.reads,
            "fills": t.fills,
            "updates": t.updates,
            "tile_words": t.tile_words,
            "energy_pj": t.energy_pj,
            **({} if t.zeros is None else {"zeros": asdict(t.zeros)}),
        }
        for t in level.tensors
    }
    return {
        "energy_pj": level.energy_pj,
        "network_pj": level.network_pj,
        "cycles": level.cycles,
        "busy_cycles": level.busy_cycles,
        "instances": level.instances,
        "used_bytes": level.used_bytes,
        "capacity_bytes": level.capacity_bytes,
        **({} if level.mesh_cycles is None else {"mesh_cycles": level.mesh_cycles}),
        "tensors": tensors,
    }


@dataclass(frozen=True)
class Infeasible:
    """Why something cannot be: the resource, what was demanded of it, what there is.

    Args:
        resource: E.g. ``capacity of level 'GlobalBuffer'``.
        demand: What was needed.
        limit: What there is.
        unit: Of both.
        detail: One more sentence.
    """

    resource: str
    demand: float
    limit: float
    unit: str
    detail: str = ""

    def to_json(self) -> JsonObject:
        """The form every command prints for an infeasible result."""
        return {"status": "infeasible", **asdict(self)}

    def __str__(self) -> str:
        text = f"{self.resource}: needs {self.demand:g} {self.unit}, has {self.limit:g}"
        return f"{text} ({self.detail})" if self.detail else text


def evaluate(
    computation: Computation,
    architecture: Architecture,
    mapping: Mapping,
    *,
    reuse: Reuse = Reuse.TIMELOOP,
    imperfect: bool = False,
) -> Cost | Infeasible:
    """Score a mapping.

    Args:
        computation: The operator.
        architecture: The hardware, energies filled in.
        mapping: A nest for the two.
        reuse: What a buffer need not fetch again; see `Reuse`.
        imperfect: Whether the factors of a dimension may multiply to more than its bound (rules I1 to I9).

    Returns:
        The cost, or why a tile does not fit.

    Raises:
        UserError: The mapping is malformed, or the architecture lacks energies.
    """
    check_mapping(computation, architecture, mapping, imperfect=imperfect)
    remainder = any(mapping.iterations(dim) != bound for dim, bound in computation.sizes.items())
    if remainder:
        refuse_imperfect(computation, architecture, reuse)
    elif is_rescaled(computation, architecture):
        return _evaluate_sparse(computation, architecture, mapping, reuse)
    return _scored(computation, architecture, mapping, encode_problem(computation, architecture, reuse), remainder)


def _scored(
    computation: Computation, architecture: Architecture, mapping: Mapping, problem: Problem, remainder: bool = False
) -> Cost | Infeasible:
    """The cost that the kernel counts on the arrays of a problem; `remainder` says whether last iterations are shorter."""
    nest = encode_nest(computation, architecture, mapping)
    count = nest.loops.shape[0]
    kernel = make_kernel(problem, count, remainder)
    status, energy_pj, cycles = score(kernel, nest, count)
    if status != VALID:
        return _infeasible(computation, architecture, problem, nest, kernel, status)
    steps = int(compute_steps(kernel, nest, count)) if remainder else None
    return _build(computation, architecture, mapping, problem, nest, kernel, energy_pj, round(cycles), steps)


def _evaluate_sparse(
    computation: Computation, architecture: Architecture, mapping: Mapping, reuse: Reuse
) -> Cost | Infeasible:
    """The expected cost where the hardware knows zeros: the dense kernel on what this mapping leaves of every access."""
    counts = expect(computation, architecture, mapping, reuse=reuse)
    shares = shares_of(counts, computation, architecture)
    problem = rescale(encode_problem(computation, architecture, reuse), shares)
    cost = _scored(computation, architecture, mapping, problem)
    if isinstance(cost, Infeasible):
        return cost
    by_place = {(x.level, x.tensor): x for x in counts.traffic}
    levels = []
    for v, level in enumerate(cost.levels):
        tensors = level.tensors
        if is_sparse(architecture):
            tensors = tuple(_with_zeros(t, by_place[v, t.tensor], architecture, v) for t in tensors)
        used = sum(by_place[v, t.tensor].held_bits for t in level.tensors) / 8
        cycles = counts.level_cycles[v]
        levels.append(
            replace(
                level, tensors=tensors, used_bytes=used, busy_cycles=cycles, cycles=max(counts.compute_cycles, cycles)
            )
        )
    dram_bits = 0.0
    for t, tensor in enumerate(computation.tensors):
        x = by_place.get((0, tensor.name))
        if x is not None:
            moved = x.reads.dense * shares.moved[0, t, 0] + x.updates.dense * shares.moved[0, t, 2]
            dram_bits += float(moved) * architecture.levels[0].element_bits(tensor.bits)
    macs = ZeroMacs(counts.macs.actual, counts.macs.gated, counts.macs.skipped, mapping.spatial_iterations)
    return replace(
        cost,
        latency_cycles=counts.latency_cycles,
        compute_cycles=counts.compute_cycles,
        levels=tuple(levels),
        dram_bytes=dram_bits / 8,
        zero_macs=macs if is_sparse(architecture) else None,
    )


def _with_zeros(traffic: TensorTraffic, found: SparseTraffic, architecture: Architecture, v: int) -> TensorTraffic:
    """Expected counts of all instances, and what was left out."""
    sparsity, many = architecture.levels[v].sparsity, found.instances
    widths = sparsity.metadata_bits, sparsity.metadata_word_bits
    flows = (found.reads, found.fills, found.updates)
    zeros = ZeroTraffic(
        dense_reads=traffic.reads,
        gated_reads=found.reads.data.gated * many,
        skipped_reads=found.reads.data.skipped * many,
        gated_updates=found.updates.data.gated * many,
        skipped_updates=found.updates.data.skipped * many,
        metadata_bits=sum(r.actual_bits(*widths) for flow in flows for r in flow.ranks) * many,
        held_words=found.held_words,
        overflow=found.overflow,
    )
    reads, fills, updates = (round(flow.data.actual * many) for flow in flows)
    return replace(traffic, reads=reads, fills=fills, updates=updates, zeros=zeros)


def _infeasible(
    computation: Computation, architecture: Architecture, problem: Problem, nest: Nest, kernel: Kernel, status: int
) -> Infeasible:
    level_index, reason = divmod(status, 4)
    level = architecture.levels[level_index]
    if reason == OVER_CAPACITY:
        kept = [t for t in range(len(computation.tensors)) if nest.position[level_index, t] != BYPASSED]
        tiles = {t: int(kernel.counts[level_index, t, TILE]) for t in kept}
        unit = FIXED_POINT if is_rescaled(computation, architecture) else 1
        demand = sum(words * int(problem.element_bits[level_index, t]) for t, words in tiles.items()) / 8 / unit
        detail = "tiles: " + ", ".join(f"{computation.tensors[t].name} {words} elements" for t, words in tiles.items())
        return Infeasible(f"capacity of level {level.name!r}", demand, level.capacity_bytes or 0.0, "bytes", detail)
    used = math.prod(int(row[FACTOR]) for row in nest.loops if row[LEVEL] == level_index)
    return Infeasible(f"fan-out of level {level.name!r}", used, level.fanout.size, "children")


def _build(
    computation: Computation,
    architecture: Architecture,
    mapping: Mapping,
    problem: Problem,
    nest: Nest,
    kernel: Kernel,
    energy_pj: float,
    cycles: int,
    steps: int | None = None,
) -> Cost:
    """The readable cost; `steps` are the cycles of computing of an imperfect nest, whose counts are totals already."""
    levels = []
    dram_bytes = 0.0
    compute_cycles = computation.macs // mapping.spatial_iterations if steps is None else steps
    for v, level in enumerate(architecture.levels):
        traffic = []
        used_bits = 0
        for t, tensor in enumerate(computation.tensors):
            if nest.position[v, t] == BYPASSED:
                continue
            instances = int(kernel.use[v, INSTANCES])
            tile, *per_instance, given = (int(c) for c in kernel.counts[v, t])
            counts = [tile, *(c * (instances if steps is None else 1) for c in per_instance)]
            counts[READS] += given if steps is None else 0
            accesses = zip(problem.energy[v, t], (counts[READS], counts[FILLS], counts[UPDATES]), strict=True)
            energy = float(sum(e * n for e, n in accesses))
            traffic.append(
                TensorTraffic(tensor.name, counts[TILE], counts[READS], counts[FILLS], counts[UPDATES], energy)
            )
            used_bits += counts[TILE] * int(problem.element_bits[v, t])
            if v == 0:
                dram_bytes += (counts[READS] + counts[UPDATES]) * int(problem.element_bits[v, t]) / 8
        busy = round(float(kernel.spent[v, CYCLES]))
        levels.append(
            LevelCost(
                level=level.name,
                instances=int(kernel.use[v, INSTANCES]),
                tensors=tuple(traffic),
                energy_pj=sum(x.energy_pj for x in traffic),
                network_pj=float(kernel.spent[v, NETWORK]),
                cycles=max(compute_cycles, busy),
                busy_cycles=busy,
                used_bytes=used_bits / 8,
                capacity_bytes=level.capacity_bytes,
                mesh_cycles=None if level.fanout.mesh is None else round(float(kernel.spent[v, MESH])),
            )
        )
    return Cost(
        latency_cycles=cycles,
        compute_cycles=compute_cycles,
        energy_pj=energy_pj,
        macs=computation.macs,
        mac_energy_pj=computation.macs * problem.mac_energy,
        mac_units=architecture.mac_units,
        levels=tuple(levels),
        dram_bytes=dram_bytes,
        loop_nest=format_nest(mapping, [t.name for t in computation.tensors], computation.sizes),
    )
