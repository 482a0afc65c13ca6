"""What AccelForge counts, made from this project's counts: refills, drains, ports.

Its buffers are refilled at every iteration of every loop outside the storage node, halo and all; here rule R2 fetches only what is new
(docs/reference/cost-model.md). It reads every output word out of a buffer when it leaves; rule O1 does not charge that. Most of its memories
read and write through one port; here each direction has its own (L2).
"""

import math
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, replace
from fractions import Fraction

from codesign.cost.cost import Cost, TensorTraffic
from codesign.workloads.computation import Tensor
from experiments.accelforge_cases import LOOPS, Case

Entering = dict[tuple[str, str], int]
"""Words that enter a level (for outputs: leave it) over the run, all instances together, by (level, tensor)."""


@dataclass(frozen=True)
class Accesses:
    """Accesses of one tensor at one level, in words, all instances together.

    Args:
        level: Its name.
        tensor: Its name.
        reads: Sent inwards, old partial sums, and words read out to be drained.
        writes: Fills and updates.
    """

    level: str
    tensor: str
    reads: int
    writes: int


def entering(case: Case, cost: Cost) -> Entering:
    """As this project counts: each output word was filled or is a first visit, which is an update without a read (rule O2)."""
    output = case.computation.output.name

    def words(traffic: TensorTraffic) -> int:
        return traffic.fills + (traffic.updates - traffic.reads if traffic.tensor == output else 0)

    return {(found.level, t.tensor): words(t) for found in cost.levels[1:] for t in found.tensors}


def refilled(case: Case) -> Entering:
    """As AccelForge counts the recorded nest: the tile at the storage node times the iterations of all loops outside it."""
    outermost = case.architecture.levels[0].name
    found: Entering = {}
    for position, node in enumerate(case.nodes):
        if node["type"] != "Storage" or node["component"] == outermost:
            continue
        outside = math.prod(round(n["n_iterations"]) for n in case.nodes[:position] if n["type"] in LOOPS)
        for name in node["tensors"]:
            tile = _tile_words(case, case.computation.tensor(name), position)
            found[node["component"], name] = tile * outside
    return found


def refilled_where_held(case: Case) -> Entering:
    """As `refilled`, but with the storage nodes where their space is taken: no tile keeps anything of the one before."""
    return refilled(replace(case, nodes=case.held))


def accesses(case: Case, cost: Cost, theirs: MappingABC[tuple[str, str], int] | None = None) -> list[Accesses]:
    """Reads and writes with drains charged.

    Args:
        case: The problem.
        cost: Of a mapping.
        theirs: Words that enter each level; default: as this project counts. What a level sends inwards grows with them.
    """
    ours = entering(case, cost)
    words = ours if theirs is None else {**ours, **theirs}
    found = []
    for position, level in enumerate(cost.levels):
        for traffic in level.tensors:
            name = traffic.tensor
            inner = [(v.level, name) for v in cost.levels[position + 1 :] if (v.level, name) in ours]
            grown = Fraction(words[inner[0]], ours[inner[0]]) if inner else Fraction(1)
            here = words.get((level.level, name), 0)
            if name != case.computation.output.name:
                found.append(Accesses(level.level, name, _whole(traffic.reads * grown), here))
                continue
            updates = _whole(traffic.updates * grown)
            first_visits = traffic.updates - traffic.reads
            fills = traffic.fills + here - ours.get((level.level, name), 0)
            found.append(Accesses(level.level, name, updates - first_visits + here, updates + fills))
    return found


def energy_j(case: Case, cost: Cost, counted: list[Accesses]) -> float:
    """Energy of these accesses and the MACs in joules; in the recorded unit where there is no clock."""
    energies = level_energies_pj(case, counted)
    total_pj = cost.mac_energy_pj + sum(energies.values())
    return total_pj if case.architecture.clock_hz == 1 else total_pj * 1e-12


def level_energies_pj(case: Case, counted: list[Accesses]) -> dict[tuple[str, str], float]:
    """Energy by (level, `read` or `write`). The recorded memories fill and update at one price."""
    energies: dict[tuple[str, str], float] = {}
    for level in case.architecture.levels:
        read_pj, write_pj = (level.energy.read_pj, level.energy.update_pj) if level.energy else (0.0, 0.0)
        energies[level.name, "read"] = sum(a.reads for a in counted if a.level == level.name) * read_pj
        energies[level.name, "write"] = sum(a.writes for a in counted if a.level == level.name) * write_pj
    return energies


def latency_s(case: Case, cost: Cost, counted: list[Accesses]) -> float:
    """Seconds; a level whose two bandwidths are equal has one port, else two, as in this project."""
    cycles = [float(cost.compute_cycles)]
    for level, found in zip(case.architecture.levels, cost.levels, strict=True):
        reads = sum(a.reads for a in counted if a.level == level.name)
        writes = sum(a.writes for a in counted if a.level == level.name)
        into, out_of = level.write_bandwidth_words_per_cycle, level.read_bandwidth_words_per_cycle
        if into is not None and out_of is not None:
            both = [(reads + writes) / into] if into == out_of else [reads / out_of, writes / into]
            cycles += [port / found.instances for port in both]
    return max(cycles) / case.architecture.clock_hz


def _tile_words(case: Case, tensor: Tensor, position: int) -> int:
    sizes = dict.fromkeys(case.computation.dims, 1)
    for node in case.nodes[position:]:
        if node["type"] in LOOPS:
            sizes[node["rank_variable"]] *= round(node["n_iterations"])
    return math.prod(tensor.shape(sizes))


def _whole(words: Fraction) -> int:
    if words.denominator != 1:
        raise ArithmeticError(f"{words} is no number of words")
    return int(words)
