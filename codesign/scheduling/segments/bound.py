"""What no tree of segments of a network on a system can beat (docs/explanation/many-cores.md, rules M61 to M68)."""

from dataclasses import dataclass
from math import inf
from typing import TypeAlias, final

import numpy as np

from codesign.core.kernel_library import FloatArray
from codesign.scheduling.segments.evaluate import Evaluator
from codesign.scheduling.segments.kernels import bound_parts
from codesign.scheduling.segments.kernels.fabric import GEMINI
from codesign.scheduling.segments.kernels.machine import DIE_HOP_PJ, HOP_PJ, Caches, Problem
from codesign.scheduling.segments.kinds_bound import kinds_lines
from codesign.scheduling.segments.layers import LayerKind
from codesign.scheduling.segments.search import make_caches, problem_arrays
from codesign.scheduling.segments.system_arrays import pitches_between

Fronts: TypeAlias = list[tuple[FloatArray, int]]
"""Energy and core time of the best options of a layer, n x 2, and how many equal layers there are."""

STEPS = 48
"""Prices of time tried on a logarithmic scale; each gives a line that no tree is below."""


@final
@dataclass(frozen=True)
class SegmentBound:
    """A bound over all trees.

    Attributes:
        edp: No tree has less energy x time.
        energy_pj: No tree has less energy.
        time: No tree takes less time.
        dram_words: That must cross the DRAM interface.
    """

    edp: float
    energy_pj: float
    time: float
    dram_words: int

    def gap(self, edp: float) -> float:
        """(value - bound) / bound of a tree's energy x time; infinite over a bound of 0, which truncated times can have."""
        if self.edp == 0.0:
            return inf if edp else 0.0
        return edp / self.edp - 1.0


@final
@dataclass(frozen=True)
class NeededWords:
    """What must move for a whole batch (rules M62, M63, M68); what counts lose to rounding is left out.

    Attributes:
        moved: Over the DRAM interface.
        entering: From the ports of DRAMs to cores.
        leaving: From cores into these ports.
        carried: Words x pitches of links to and from DRAM.
    """

    moved: int
    entering: int
    leaving: int
    carried: float


def needed_words(problem: Problem, evaluator: Evaluator) -> NeededWords:
    """Weights are read once; inputs from outside and outputs that no layer reads cross DRAM once.

    Counts floor the share of each DRAM and port of a transfer, and what runs of a layer share of its weights, link by link.
    """
    memories, batch, cores = evaluator.system.memories, int(problem.batches[-1]), evaluator.system.cores
    drams, ports = len(memories.ports), len(memories.ports[0])
    of_dram, of_port = cores * (drams - 1), cores * drams * (ports - 1)
    pitches = int(evaluator.fabric.links[:2].sum())
    entries, way = len(evaluator.system.grid.beside), least_way(evaluator)
    read = {p for layer in evaluator.network.layers for p in (*layer.inputs, *layer.weight_inputs)}
    moved, entering, leaving, carried = 0, 0, 0, 0.0
    for i, layer in enumerate(evaluator.network.layers):
        if layer.weight_words and not layer.weight_inputs:
            words = layer.weight_words - of_dram
            moved += max(0, words - drams * batch)
            entering += max(0, words - entries * batch)
            carried += max(0.0, max(0, words - of_port) * way / ports - pitches * batch)
        each_run = 0
        if layer.external_c:
            own = layer.kind in (LayerKind.POOL, LayerKind.ELTWISE, LayerKind.PTP)
            of_channel = bound_parts.input_words(problem, i) // (layer.K if own else layer.C)
            each_run = max(0, of_channel * layer.external_c - of_dram) * batch
            entering += max(0, each_run - of_port * batch)
            carried += max(0, each_run - of_port * batch) * way / ports
        if i not in read:
            written = max(0, layer.K * layer.H * layer.W - of_dram) * batch
            leaving += max(0, written - of_port * batch)
            carried += max(0, written - of_port * batch) * way / ports
            each_run += written
        moved += each_run
    return NeededWords(moved, entering, leaving, carried)


def least_way(evaluator: Evaluator) -> int:
    """Pitches from all ports of one DRAM to one core together, of the nearest core."""
    system = evaluator.system
    cores = [system.grid.place(x, y) for x, y in system.core_places]
    pitches = pitches_between(system)
    drams = [[system.grid.place(x, y) for x, y in ports] for ports in system.memories.ports]
    return int(min(pitches[np.ix_(ports, cores)].sum(axis=0).min() for ports in drams))


def port_cycles(evaluator: Evaluator, needed: NeededWords) -> float:
    """Cycles of the cut between memories and cores, where all ports stand beside the cores and links bound the time (rule M68).

    Words read leave over one link of each port. Words written enter over one too; on a mesh with X-Y routing over one of each
    row, for they may go along a column of ports.
    """
    system, grid = evaluator.system, evaluator.system.grid
    if not evaluator.semantics.links_bound or any(0 <= x < grid.width for x, _ in grid.ports):
        return 0.0

    def words_a_cycle(places: list[tuple[int, int]]) -> int:
        between = [grid.borders((x, y), (0 if x < 0 else grid.width - 1, y)) for x, y in places]
        return sum(system.dies.words_per_cycle if b else system.links.words_per_cycle for b in between)

    ports = [grid.where(port) for port, _ in grid.beside]
    entered = ports
    if system.network.is_plain:
        entered = [(x, y) for x in {x for x, _ in ports} for y in range(grid.height)]
    return max(needed.entering / words_a_cycle(ports), needed.leaving / words_a_cycle(entered))


def link_price(evaluator: Evaluator, problem: Problem, shared: bool) -> float:
    """The least pJ of a word on a link; under Gemini's rules links between dies do not make those of shared words cheaper."""
    one_price = evaluator.system.dies.count == 1 or (shared and evaluator.semantics.counting == GEMINI)
    prices = problem.prices
    return float(prices[HOP_PJ] if one_price else min(prices[HOP_PJ], prices[DIE_HOP_PJ]))


def spread_of(evaluator: Evaluator, problem: Problem, layer: int, least: int) -> FloatArray:
    """What `shared_hops` needs to know of a layer.

    Words from outside and weights have the way to one core counted already. A release that drops concatenated inputs moves them
    for nothing, so that they do not count.

    Args:
        evaluator: Network and system.
        problem: The same in the kernels' form.
        layer: Its number.
        least: Of `least_way`.
    """
    of = evaluator.network.layers[layer]
    way = least / len(evaluator.system.memories.ports[0])
    producers = len(of.inputs) + int(of.external_c > 0)
    counted = 0 if producers > 1 and evaluator.semantics.drop_shifted else producers
    return np.array([counted, way if of.external_c else 0.0, way, link_price(evaluator, problem, True)])


def _front_of(problem: Problem, caches: Caches, layer: int, spread: FloatArray) -> FloatArray:
    """Energy and core time of a layer's best options, n x 2; where no core holds its tiles, of tiles of any size."""
    room = np.zeros((len(problem.batches) * len(problem.parts), 2))
    endless = problem._replace(limits=np.array([[2**62, 0]], np.int64))
    for limited in (problem, endless):
        n = bound_parts.keep_best(room, bound_parts.layer_options(limited, caches, layer, spread, room))
        if n:
            return room[:n].copy()
    return np.full((1, 2), np.inf)


def bound_of(evaluator: Evaluator, batch: int) -> SegmentBound:
    """The bound of a network on a system for a whole batch (rule M64).

    For any price m of time, energy + m time is at least the sum over layers of the least of each. Time is at least the core time
    of all layers over all cores, and the DRAM's; any mean of the two counts. No point above all these lines has a lesser product.
    """
    problem = problem_arrays(evaluator, batch, 0.0)
    needed, system = needed_words(problem, evaluator), evaluator.system
    fixed = needed.moved * system.memories.pj_per_word
    fixed += needed.carried * link_price(evaluator, problem, False)
    moving = needed.moved / (system.memories.words_per_cycle_each * len(system.memories.ports))
    moving = max(moving, port_cycles(evaluator, needed))
    if system.clock_ghz != 1:  # times of segments are truncated
        moving = max(0.0, moving / system.clock_ghz - len(problem.table) * batch)
    if evaluator.kinds > 1:
        energy, least_time, lines = kinds_lines(problem, evaluator, fixed, moving)
        return SegmentBound(least_product(lines, energy, least_time), energy, least_time, needed.moved)
    fronts = _fronts_of(evaluator, problem, make_caches(problem))
    energies, times = _sums(fronts, np.zeros(1)), _sums(fronts, np.full(1, np.inf))
    energy, core_time = fixed + float(energies[0, 0]), float(times[0, 1]) / system.cores
    least_time = max(core_time, moving)
    if np.isinf(energy):  # no core can do some layer
        return SegmentBound(energy, energy, least_time, needed.moved)
    lines = _lines(fronts, fixed, moving, system.cores, energy / max(least_time, 1e-9))
    edp = least_product(lines, energy, least_time)
    return SegmentBound(edp, energy, least_time, needed.moved)


def _fronts_of(evaluator: Evaluator, problem: Problem, caches: Caches) -> Fronts:
    """Fronts of all layers; those of equal ones once, with how many there are."""
    first: dict[tuple[bytes, bytes], int] = {}
    found: list[tuple[FloatArray, int]] = []
    least = least_way(evaluator)
    for layer in range(len(problem.table)):
        spread = spread_of(evaluator, problem, layer, least)
        key = problem.table[layer].tobytes(), spread.tobytes()
        if key in first:
            front, times = found[first[key]]
            found[first[key]] = front, times + 1
        else:
            first[key] = len(found)
            found.append((_front_of(problem, caches, layer, spread), 1))
    return found


def _sums(fronts: Fronts, prices: FloatArray) -> FloatArray:
    """Sums of energy and core time of the options of least energy + price x core time, prices x 2."""
    found = np.zeros((len(prices), 2))
    for front, times in fronts:
        for i, price in enumerate(prices):
            goal = front[:, 1] if np.isinf(price) else front[:, 0] if price == 0 else front[:, 0] + price * front[:, 1]
            found[i] += times * front[np.argmin(goal)]
    return found


def _lines(fronts: Fronts, fixed: float, moving: float, cores: int, around: float) -> FloatArray:
    """Prices m and the least energy + m x time for each, n x 2; the best mean of core time and DRAM time counts."""
    found = []
    for price in around * np.logspace(-1.5, 1.5, STEPS):
        totals = []
        for share in (1.0, 0.9, 0.75, 0.5, 0.25, 0.0):
            scaled = price * share / cores
            parts = sum(times * float((front[:, 0] + scaled * front[:, 1]).min()) for front, times in fronts)
            totals.append(fixed + price * (1.0 - share) * moving + parts)
        found.append((price, max(totals)))
    return np.array(found)


def least_product(lines: FloatArray, least_energy: float, least_time: float) -> float:
    """The least energy x time above all lines ``energy + m time = c`` and both limits.

    The least energy at a time is convex and linear in pieces, so that the product is least at a kink.

    Args:
        lines: m and c of each, n x 2.
        least_energy: No point has less.
        least_time: No point has less.
    """
    prices, totals = np.append(lines[:, 0], 0.0), np.append(lines[:, 1], least_energy)
    i, j = np.triu_indices(len(prices), 1)
    apart = prices[i] - prices[j]
    meet = (totals[i] - totals[j])[apart != 0] / apart[apart != 0]
    times = np.append(meet[meet > least_time], least_time)
    energies = (totals[:, None] - prices[:, None] * times).max(axis=0)
    return float((energies * times).min())
