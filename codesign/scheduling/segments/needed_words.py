"""Words that every tree of a network moves, and what their ways cost at least (rules M62, M63, M66, M68, M70)."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from codesign.arch.many_core import ManyCore
from codesign.core.kernel_library import FloatArray
from codesign.scheduling.segments.evaluate import Evaluator
from codesign.scheduling.segments.kernels import bound_parts, fabric
from codesign.scheduling.segments.kernels.bound_parts import Prices, Spread
from codesign.scheduling.segments.kernels.machine import DIE_HOP_PJ, HOP_PJ, Problem
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer
from codesign.scheduling.segments.system_arrays import pitches_between


@dataclass(frozen=True)
class NeededWords:
    """What must move for a whole batch (rules M62, M63, M68); what counts lose to rounding is left out.

    Attributes:
        moved: Over the DRAM interface.
        entering: From the ports of DRAMs to cores.
        leaving: From cores into these ports.
        carried_pj: Energy of links to and from DRAM.
        of_run: Weights of each layer, which its runs share.
        of_sample: Words of each layer for a sample.
    """

    moved: int
    entering: int
    leaving: int
    carried_pj: float
    of_run: tuple[int, ...]
    of_sample: tuple[int, ...]


def prices_of(evaluator: Evaluator, problem: Problem) -> Prices:
    """What links cost on a system under some rules."""
    system = evaluator.system
    hop = float(problem.prices[HOP_PJ])
    die_hop = float(problem.prices[DIE_HOP_PJ]) if system.dies.count > 1 else hop
    counting, links = evaluator.semantics.counting, evaluator.fabric.links
    of_links = float((links[fabric.INSIDE] * hop + links[fabric.BETWEEN] * die_hop).sum())
    ways = _port_ways(system, counting, hop, die_hop)
    nearest = float(min(to_cores.mean(axis=0).min() for to_cores, _ in ways))
    cores = np.arange(system.cores + 1)
    apart = np.min([np.sort(to_cores, axis=1).cumsum(axis=1).mean(axis=0) for to_cores, _ in ways], axis=0)
    reach = np.array([_reach_pj(system, counting, int(n), hop, die_hop) for n in cores])
    more = reach
    if counting == fabric.OWN and system.dies.count > 1:
        more = np.maximum(cores - 1, 0) * (die_hop if system.dies.count == system.cores else min(hop, die_hop))
    return Prices(
        nearest,
        float(min(to_ports.mean(axis=0).min() for _, to_ports in ways)),
        of_links if counting == fabric.OWN else hop + die_hop,
        port_words(evaluator)[0] if evaluator.semantics.leaf_links else 0,
        reach,
        more.astype(np.float64),
        np.append(0.0, apart),
    )


def _port_ways(system: ManyCore, counting: int, hop: float, die_hop: float) -> list[tuple[FloatArray, FloatArray]]:
    """Least energy of a word from each port of a DRAM to each core and back, ports x cores for each DRAM.

    Words of Gemini's rules pay hops between dies in the place of others where one core receives them, besides where several do.
    """
    grid, pitches = system.grid, pitches_between(system)
    cores = [grid.place(x, y) for x, y in system.core_places]
    ports = [[grid.place(x, y) for x, y in of_dram] for of_dram in system.memories.ports]
    if system.dies.count == 1 or counting == fabric.SET or not system.network.is_plain:
        price = hop if counting == fabric.SET else min(hop, die_hop)
        to_cores: list[FloatArray] = [(pitches[np.ix_(of_dram, cores)] * price).astype(np.float64) for of_dram in ports]
        return [(costs, costs) for costs in to_cores]
    found = []
    for of_dram in ports:
        each = np.array([[_way_pj(system, counting, port, core, hop, die_hop) for core in cores] for port in of_dram])
        found.append((each[:, :, 0], each[:, :, 1]))
    return found


def _way_pj(system: ManyCore, counting: int, port: int, core: int, hop: float, die_hop: float) -> tuple[float, float]:
    """Least energy of a word from a port to a core, and back, on a mesh with X-Y routing and several dies."""
    grid = system.grid
    (x0, y0), (x1, y1) = grid.where(port), grid.where(core)
    pitches = abs(x0 - x1) + abs(y0 - y1)
    wide, high = system.width // system.dies.x, system.height // system.dies.y
    if counting == fabric.GEMINI:
        borders = 0
        if max(y0, y1) >= high:
            borders = fabric.crossings(min(x0, x1), max(x0, x1), wide) + fabric.crossings(
                min(y0, y1), max(y0, y1), high
            )
        alone = (pitches - borders) * hop + borders * die_hop
        return min(alone, pitches * hop), alone
    along_x, along_y = abs(x0 // wide - x1 // wide), abs(y0 // high - y1 // high)
    to_port = along_x + (along_y if 0 <= x0 < grid.width else 0)
    to_core = along_x + along_y
    return (pitches - to_core) * hop + to_core * die_hop, (pitches - to_port) * hop + to_port * die_hop


def _reach_pj(system: ManyCore, counting: int, receivers: int, hop: float, die_hop: float) -> float:
    """Energy of links by which so many cores receive a word, at least: one link each but for one core (rule M66).

    The links join all dies with receivers. Gemini's rules count borders of dies besides, and take the width of a die for its height.
    """
    links, dies = max(0, receivers - 1), system.dies
    if dies.count == 1 or links == 0:
        return links * hop
    if counting == fabric.GEMINI:
        wide = system.width // dies.x
        least = 0
        while _reached(system.width, system.height, wide, least) < receivers:
            least += 1
        return links * hop + least * die_hop
    if die_hop < hop:
        return links * die_hop
    borders = -(-receivers // (system.cores // dies.count)) - 1
    return (links - borders) * hop + borders * die_hop


@lru_cache(maxsize=4096)
def _reached(width: int, height: int, step: int, borders: int) -> int:
    """Most cores of a multicast that Gemini's rules count so many borders of dies for, shared by its trunk and its branches."""
    rows = min(step, height)
    return max(min(width, (trunk + 1) * step) * rows + (borders - trunk) * step for trunk in range(borders + 1))


def needed_words(problem: Problem, evaluator: Evaluator, prices: Prices) -> NeededWords:
    """Weights are read once; inputs from outside and outputs that no layer reads cross DRAM once.

    Counts floor the share of each DRAM and port of a transfer, and what runs of a layer share of its weights, link by link.
    """
    memories, batch, cores = evaluator.system.memories, int(problem.batches[-1]), evaluator.system.cores
    drams, ports = len(memories.ports), len(memories.ports[0])
    of_dram, of_port = cores * (drams - 1), cores * drams * (ports - 1)
    entries, layers = len(evaluator.system.grid.beside), evaluator.network.layers
    readers = evaluator.network.readers()
    of_run, of_sample = [], []
    moved, entering, leaving, carried = 0, 0, 0, 0.0
    for i, layer in enumerate(layers):
        words = 0
        if layer.weight_words and not layer.weight_inputs:
            words = max(0, layer.weight_words - of_dram)
            moved += max(0, words - drams * batch)
            entering += max(0, words - entries * batch)
            carried += max(0.0, max(0, words - of_port) * prices.read - prices.floor * batch)
        each_run = 0
        if layer.external_c:
            each_run = max(0, words_of_channel(problem, i, layer) * layer.external_c - of_dram)
            entering += max(0, each_run - of_port) * batch
            carried += max(0, each_run - of_port) * batch * prices.read
        if not readers[i]:
            written = max(0, layer.K * layer.H * layer.W - of_dram)
            leaving += max(0, written - of_port) * batch
            carried += max(0, written - of_port) * batch * prices.written
            each_run += written
        moved += each_run * batch
        of_run.append(words)
        of_sample.append(each_run)
    return NeededWords(moved, entering, leaving, carried, tuple(of_run), tuple(of_sample))


def words_of_channel(problem: Problem, number: int, layer: SegmentLayer) -> int:
    """Input words of one channel that a sample of a layer reads, at least."""
    own = layer.kind in (LayerKind.POOL, LayerKind.ELTWISE, LayerKind.PTP)
    return int(bound_parts.input_words(problem, number)) // (layer.K if own else layer.C)


def port_words(evaluator: Evaluator) -> tuple[int, int]:
    """Words a cycle that leave all ports together, and that enter them, where they stand beside the cores; 0 where they do not.

    Words read leave over one link of each port. Words written enter over one too; on a mesh with X-Y routing over one of each
    row, for they may go along a column of ports.
    """
    system, grid = evaluator.system, evaluator.system.grid
    if any(0 <= x < grid.width for x, _ in grid.ports):
        return 0, 0

    def words_a_cycle(places: list[tuple[int, int]]) -> int:
        between = [grid.borders((x, y), (0 if x < 0 else grid.width - 1, y)) for x, y in places]
        return sum(system.dies.words_per_cycle if b else system.links.words_per_cycle for b in between)

    ports = [grid.where(port) for port, _ in grid.beside]
    entered = ports
    if system.network.is_plain:
        entered = [(x, y) for x in {x for x, _ in ports} for y in range(grid.height)]
    return words_a_cycle(ports), words_a_cycle(entered)


def port_cycles(evaluator: Evaluator, needed: NeededWords) -> float:
    """Cycles of the cut between memories and cores, where links bound the time (rule M68)."""
    leaving, entered = port_words(evaluator)
    if not evaluator.semantics.links_bound or not leaving:
        return 0.0
    return max(needed.entering / leaving, needed.leaving / entered)


def spread_of(evaluator: Evaluator, needed: NeededWords, prices: Prices, number: int) -> Spread:
    """What the kernels need to know of a layer's words.

    Words from outside and weights have the way to one core counted already. A release that drops concatenated inputs moves them
    for nothing, so that they do not count.
    """
    layer = evaluator.network.layers[number]
    producers = len(layer.inputs) + int(layer.external_c > 0)
    return Spread(
        0 if producers > 1 and evaluator.semantics.drop_shifted else producers,
        prices.read if layer.external_c else 0.0,
        float(needed.of_run[number]),
        float(needed.of_sample[number]),
        prices,
    )
