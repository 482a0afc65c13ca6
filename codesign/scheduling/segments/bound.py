"""What no tree of segments of a network on a system can beat.

A run of a layer takes time t on n of the N cores, and there are r runs.

* M61, Options: Every batch and partition of a layer is an option. Its energy is that of cores, buffers and links; its
  time that of the largest tile. A tree has one option of each layer.
* M62, Weights: They are read from DRAM once at least.
* M63, Ends: Inputs from outside, and outputs that no layer reads, cross DRAM once for each sample.
* M64, Lines: At any price m of time, energy + m time is no less than the sum of the least of all layers. Bounds of time
  may be mixed in any shares. No point above all lines has a lesser product than the least at their kinks.
* M65, Work: Layers that run together have cores of their own. So time is at least the sum of r t n / N.
* M66, Links: A word that n cores receive takes n - 1 links, from wherever it comes. From a port it takes the way to the
  nearest of them besides, and groups of cores that share no weights have different nearest cores. Links join all dies
  with receivers.
* M67, Room: The largest tile of inputs and weights fits a core.
* M68, Ports: Words to and from DRAM pass the links of its ports.
* M69, Paths: Let P be a path of readers from a layer that reads none to one that none reads. Layers between two that all
  paths share are a stretch, which has a share f of at most 1. A layer that all paths share counts r t n / N + t (1 - n / N);
  one of P in a stretch r t n / N + f t (1 - n / N); one beside P (1 - f) r t n / N. Time is at least the sum.
* M70, Runs: A run takes no less than its DRAM words and, where links bound it, those of the ports.

Proof of M69, by induction for every node, its m cores in the place of N. Let b be 1, f or 0 for the three sorts of layers.
A leaf takes t. A cut in time takes g times the time of its children, and terms of layers grow g-fold at most.

In a cut in space of g groups let p be a child's share of the cores. A term of the cut is at most g p times the child's, plus
(1 - p) b t. Stages rise along every path, so that children of one stage do not depend on each other. P visits at most one of
them. If others stand beside it, all their layers are of the stretch of its own on P, for layers of two stretches depend on
each other. Let M be the time of the longest child of the stage. In the visited one b t add up to f M, as layers of P follow
each other there; terms of the others add up to (1 - f) M each. So a stage's children have p times their terms, and
(1 - p) b t, of M together. All terms of the cut are the sum of M over its stages at most, plus g - 1 times the largest M: no
more than the time of the cut, also step by step (rule M33).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.many_core import VectorMacCore
from codesign.core.kernel_library import FloatArray
from codesign.scheduling.segments.evaluate import Evaluator
from codesign.scheduling.segments.kernels import bound_parts, layout
from codesign.scheduling.segments.kernels.machine import LANE_PJ, Problem
from codesign.scheduling.segments.kinds_bound import kinds_lines
from codesign.scheduling.segments.layers import LayerKind, SegmentNetwork
from codesign.scheduling.segments.needed_words import (
    NeededWords,
    needed_words,
    port_cycles,
    prices_of,
    spread_of,
    words_of_channel,
)
from codesign.scheduling.segments.search_arrays import problem_arrays

PRICES = np.logspace(-1.5, 1.5, 48)
"""Prices of time tried, of that at which energy and time count alike; each gives a line that no tree is below."""

OF_CORES = (1.0, 0.9, 0.75, 0.5, 0.0)
"""Shares of a price that the time of cores has; the rest is the DRAM's."""

OF_PATHS = ((0.0, 0), *((share, which) for share in (0.25, 0.5, 0.75, 1.0) for which in (0, 1)))
"""Shares of the time of layers between two that all paths share which one mixture of paths has, and which (rule M69)."""

FAVOUR = 4
"""Power of what lies behind a layer by which a path divides among those that read a layer."""


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
class Front:
    """The best options of a layer.

    Attributes:
        options: Energy, core time and idle time, n x 3.
        alone: Energy and core time where a layer is a segment by itself and pays for no serial lanes, n x 2.
        shares: That each mixture of paths has in the layer.
    """

    options: FloatArray
    alone: FloatArray
    shares: tuple[float, ...]


@final
@dataclass(frozen=True)
class Stretch:
    """Layers between two that all paths share, or one of these (rule M69).

    Attributes:
        fronts: Of the layers.
        count: How many stretches are alike.
    """

    fronts: tuple[Front, ...]
    count: int

    @property
    def ways(self) -> tuple[tuple[float, int], ...]:
        """Shares of mixtures of paths to choose from."""
        return OF_PATHS if len(self.fronts) > 1 else ((1.0, 0),)


def path_shares(network: SegmentNetwork, work: Sequence[float]) -> tuple[list[int], list[tuple[float, float]]]:
    """Number of each layer's stretch, and its shares in two mixtures of paths from producers to readers (rule M69).

    A layer that all paths share is a stretch of its own. The first mixture is the path of most work; the second divides where a
    layer has several readers, in favour of more work behind them.

    Args:
        network: The layers.
        work: Of each layer.
    """
    producers, readers = [layer.producers for layer in network.layers], network.readers()
    n = len(producers)
    to, since, behind = [1] * n, [1] * n, np.array(work, dtype=np.float64)
    for i in range(n):
        to[i] = sum(to[producer] for producer in producers[i]) or 1
    for i in range(n - 1, -1, -1):
        since[i] = sum(since[reader] for reader in readers[i]) or 1
        behind[i] += max((behind[reader] for reader in readers[i]), default=0.0)
    paths = sum(since[i] for i in range(n) if not producers[i])
    stretches, number = [], 0
    for i in range(n):
        shared = to[i] * since[i] == paths
        number += shared
        stretches.append(number)
        number += shared
    shares = np.zeros((n, 2))
    for i in range(-1, n):
        after = [j for j in range(n) if not producers[j]] if i < 0 else readers[i]
        if not after:
            continue
        given, weights = (np.ones(2) if i < 0 else shares[i]), behind[after] / max(float(behind[after].max()), 1e-300)
        weights = weights**FAVOUR if weights.sum() > 0.0 else np.ones(len(after))
        shares[after[int(np.argmax(behind[after]))], 0] += given[0]
        shares[after, 1] += given[1] * weights / weights.sum()
    return stretches, [(float(first), float(second)) for first, second in np.minimum(1.0, shares).round(12)]


@final
@dataclass
class Tiles:
    """The tiles of a layer on a core; many batches and partitions have equal ones.

    Attributes:
        which: Number of the tile of every batch and partition, batches x partitions.
        costs: Energy and cycles of each tile.
    """

    which: NDArray[np.uint32]
    costs: FloatArray


@lru_cache(maxsize=128)
def _known_tiles(core: VectorMacCore, cores: int, batch: int, row: bytes) -> list[Tiles]:
    """Tiles of a layer on a core, for all systems with so many of them; empty until they are put there."""
    return []


def _tiles_of(problem: Problem, layer: int) -> Tiles:
    """Tiles of a layer, each priced once."""
    parts = problem.parts[None]
    wholes = [problem.table[layer, at] for at in (layout.K, layout.H, layout.W)]
    k, h, w = (-(-whole // parts[..., d]) for whole, d in zip(wholes, (0, 2, 3), strict=True))
    b = -(-problem.batches[:, None] // parts[..., 1])
    keys = ((b * (wholes[0] + 1) + k) * (wholes[1] + 1) + h) * (wholes[2] + 1) + w
    _, first, which = np.unique(keys.ravel(), return_index=True, return_inverse=True)
    sizes = np.stack([np.broadcast_to(n, keys.shape).ravel()[first] for n in (k, b, h, w)], axis=1)
    costs = np.zeros((len(first), 2))
    bound_parts.tile_costs(problem, layer, np.ascontiguousarray(sizes), costs)
    return Tiles(which.reshape(keys.shape).astype(np.uint32), costs)


def _front_of(problem: Problem, tiles: Tiles, layer: int, spread: bound_parts.Spread) -> FloatArray:
    """Energy, core time and idle time of a layer's best options, n x 3; where no core holds its tiles, of tiles of any size."""
    room, which = np.zeros((tiles.which.size, 3)), tiles.which.astype(np.int64)
    endless = problem._replace(limits=np.array([[2**62, 0]], np.int64))
    for limited in (problem, endless):
        n = bound_parts.layer_options(limited, layer, which, tiles.costs, spread, room)
        if n:
            found = room[:n][np.lexsort((room[:n, 2], room[:n, 1], room[:n, 0]))]
            return found[: bound_parts.keep_best(found, n)].copy()
    return np.full((1, 3), np.inf)


def _alone_pj(problem: Problem, evaluator: Evaluator, number: int, readers: bool) -> float:
    """Energy of DRAM words that a layer moves besides those counted elsewhere when it is a segment by itself, at least."""
    layer, batch, memories = evaluator.network.layers[number], int(problem.batches[-1]), evaluator.system.memories
    lost = evaluator.system.cores * (len(memories.ports) - 1)
    channels = sum(evaluator.network.layers[p].K for p in layer.inputs)
    if layer.kind in (LayerKind.POOL, LayerKind.PTP):
        channels = min(channels, layer.K)
    words = max(0, words_of_channel(problem, number, layer) * channels - lost * len(layer.inputs))
    words += max(0, layer.K * layer.H * layer.W - lost) if readers else 0
    return float(words * batch * memories.pj_per_word)


def _stretches_of(
    evaluator: Evaluator, problem: Problem, needed: NeededWords, prices: bound_parts.Prices
) -> list[Stretch]:
    """Stretches of all layers; equal ones once, with how many there are."""
    network, lanes = evaluator.network, problem.prices[LANE_PJ] > 0.0
    core, cores, batch = evaluator.system.core, evaluator.system.cores, int(problem.batches[-1])
    known: dict[tuple[object, ...], FloatArray] = {}
    options, alike = [], []
    for layer in range(len(problem.table)):
        spread = spread_of(evaluator, needed, prices, layer)
        key = (problem.table[layer].tobytes(), *spread[:4])
        if key not in known:
            tiles = _known_tiles(core, cores, batch, problem.table[layer].tobytes())
            if not tiles:
                tiles.append(_tiles_of(problem, layer))
            known[key] = _front_of(problem, tiles[0], layer, spread)
        options.append(known[key])
        alike.append(key)
    numbers, shares = path_shares(network, [min(1e300, float(front[:, 1].min())) for front in options])
    readers = network.readers()
    members: dict[int, list[tuple[tuple[object, ...], Front]]] = {}
    for i, (front, key) in enumerate(zip(options, alike, strict=True)):
        alone = np.zeros((0, 2))
        if lanes:
            alone = front[front[:, 2] == 0.0, :2] + np.array([_alone_pj(problem, evaluator, i, bool(readers[i])), 0.0])
        members.setdefault(numbers[i], []).append(
            ((*key, shares[i], alone[:1].tobytes()), Front(front, alone, shares[i]))
        )
    found: dict[tuple[object, ...], Stretch] = {}
    for stretch in members.values():
        whole = tuple(key for key, _ in stretch)
        count = found[whole].count if whole in found else 0
        found[whole] = Stretch(tuple(front for _, front in stretch), count + 1)
    return list(found.values())


def least_totals(stretches: list[Stretch], of_cores: FloatArray, lane_pj: float, of_energy: float = 1.0) -> FloatArray:
    """The least energy + price x time of cores at every price, energy that every tree spends apart (rules M64, M69).

    Args:
        stretches: Of all layers.
        of_cores: Prices of a unit of time of the cores.
        lane_pj: Energy of all serial lanes in a unit of time.
        of_energy: Price of energy.
    """
    totals = np.zeros(len(of_cores))
    for stretch in stretches:
        best = np.full(len(of_cores), -np.inf)
        for path, which in stretch.ways:
            of_way = (_least(front, of_cores, lane_pj, of_energy, path, which) for front in stretch.fronts)
            best = np.maximum(best, sum(of_way))
        totals += stretch.count * best
    return totals


def _least(front: Front, of_cores: FloatArray, lane_pj: float, of_energy: float, path: float, which: int) -> FloatArray:
    """The least of a layer's options at every price of a unit of time of the cores."""
    share = front.shares[which] * path
    busy, price = 1.0 - path + share, of_cores + lane_pj
    energy, core, idle = front.options.T[:, :, None]
    least: FloatArray = (of_energy * energy + (core * busy + idle * share) * price).min(axis=0)
    if len(front.alone):
        alone = of_energy * front.alone[:, :1] + front.alone[:, 1:] * (of_cores * busy)
        least = np.minimum(least, alone.min(axis=0))
    return least


def bound_of(evaluator: Evaluator, batch: int) -> SegmentBound:
    """The bound of a network on a system for a whole batch (rule M64).

    For any price m of time, energy + m time is at least the sum over layers of the least of each. Time is at least that of the
    cores, with what layers leave idle (rule M69), and the DRAM's; any mean of the two counts. No point above all these lines has
    a lesser product.
    """
    problem = problem_arrays(evaluator, batch, 0.0)
    prices, system = prices_of(evaluator, problem), evaluator.system
    needed = needed_words(problem, evaluator, prices)
    fixed = needed.moved * system.memories.pj_per_word + needed.carried_pj
    moving = needed.moved / (system.memories.words_per_cycle_each * len(system.memories.ports))
    moving = max(moving, port_cycles(evaluator, needed))
    if system.clock_ghz != 1:  # times of segments are truncated
        moving = max(0.0, moving / system.clock_ghz - len(problem.table) * batch)
    if evaluator.kinds > 1:
        energy, least_time, lines = kinds_lines(problem, evaluator, fixed, moving)
        return SegmentBound(least_product(lines, energy, least_time), energy, least_time, needed.moved)
    stretches = _stretches_of(evaluator, problem, needed, prices)
    if any(
        np.isinf(front.options).any() for stretch in stretches for front in stretch.fronts
    ):  # no core can do some layer
        return SegmentBound(inf, inf, inf, needed.moved)
    lane_pj = float(problem.prices[LANE_PJ])
    energy = fixed + float(least_totals(stretches, np.zeros(1), lane_pj)[0])
    least_time = max(moving, float(least_totals(stretches, np.ones(1), 0.0, 0.0)[0]))
    price = energy / max(least_time, 1e-9) * PRICES
    of_cores, of_dram = np.outer(OF_CORES, price), np.outer(1.0 - np.array(OF_CORES), price)
    totals = least_totals(stretches, of_cores.ravel(), lane_pj).reshape(of_cores.shape) + of_dram * moving
    lines = np.stack([price, fixed + totals.max(axis=0)], axis=1)
    return SegmentBound(least_product(lines, energy, least_time), energy, least_time, needed.moved)


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
