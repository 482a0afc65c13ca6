"""Where a search starts, and the baselines: no fusion, and Cocco (order and DRAM cuts only).

Cocco (Tan et al., ASPLOS 2024) fuses whole layers: its fine-grained groups are its groups, tiling numbers come from a rule and every
transfer is double-buffered. SoMa's authors did not release their baseline; this one follows the paper's description.
"""

import math
from dataclasses import replace

import numpy as np

from codesign.core import clock
from codesign.core.goals import Objective
from codesign.scheduling.soma.evaluator import Invalid, Problem, parse
from codesign.scheduling.soma.kernels import decode as kf
from codesign.scheduling.soma.kernels import score_scheme as ks
from codesign.scheduling.soma.model import layer_graph as nw
from codesign.scheduling.soma.model.layer_graph import Layer
from codesign.scheduling.soma.model.notation import FusionScheme, Status, fusion_from_arrays
from codesign.scheduling.soma.search.fusion_search import Workspace, score

COCCO_MOVES = {"order": 0.3, "merge_dram": 0.3, "split_plain": 0.2, "shift_plain": 0.2}
UNFUSED_MOVES = {"tiling": 1.0}

# Partitions of the PE array in the order the published rule tries them.
_PARTITIONS = ("CK", "CB", "CW", "BK", "HK", "HW")


def core_tile(layer: Layer, problem: Problem) -> tuple[int, int, int]:
    """Smallest tile (samples, rows, columns) that still fills the PE array, the published rule.

    Each partition of the array scores the product of how far the layer fills its two dimensions; the first full score
    or else the best one decides which extents must be at least the array's side.
    """
    hardware = problem.hardware
    side = hardware.pe_dim
    fill = {
        "C": layer.C / hardware.vector_lanes / side,
        "K": layer.K / hardware.kernel_lanes / side,
        "B": problem.batch / side,
        "H": layer.H / side,
        "W": layer.W / side,
    }
    scores = {p: min(1.0, fill[p[0]]) * min(1.0, fill[p[1]]) for p in _PARTITIONS}
    best = max(_PARTITIONS, key=lambda p: scores[p])
    samples = min(problem.batch, side) if "B" in best else 1
    return samples, min(layer.H, side), min(layer.W, side)


def core_tiling(layer: Layer, problem: Problem) -> int:
    """Tiling number that cuts a layer into `core_tile`s, rounded up to a power of two."""
    b, h, w = core_tile(layer, problem)
    count = math.ceil(layer.H / h) * math.ceil(layer.W / w) * problem.batch / b
    return int(2 ** math.ceil(math.log2(count)))


def unfused_scheme(problem: Problem, tiling: tuple[int, ...]) -> FusionScheme:
    """Every layer a group of its own; `tiling` by layer id."""
    order = problem.graph.topological
    return FusionScheme(order, tuple(range(len(order))), (), tuple(tiling[layer] for layer in order))


def published_start(problem: Problem) -> FusionScheme | Invalid:
    """The published program's first scheme: no fusion; layers with very many core tiles start with one per sample."""
    tiling = []
    for layer in problem.graph.layers:
        count = core_tiling(layer, problem)
        tiling.append(problem.batch if count > 16 * problem.batch else count)
    return fit(problem, unfused_scheme(problem, tuple(tiling)))


def cocco_start(problem: Problem) -> FusionScheme | Invalid:
    """No fusion, every layer in core tiles."""
    return fit(problem, unfused_scheme(problem, tuple(core_tiling(layer, problem) for layer in problem.graph.layers)))


def coarse_start(problem: Problem) -> FusionScheme | Invalid:
    """No fusion, one tile per sample where it fits, else as few as fit."""
    return fit(problem, unfused_scheme(problem, (problem.batch,) * len(problem.graph.layers)))


def fused_starts(problem: Problem) -> list[FusionScheme]:
    """Schemes at the other end: one group with a fine-grained cut before every layer, in 1, batch or more tiles; those that fit."""
    order = problem.graph.topological
    n = len(order)
    found = []
    workspace = Workspace(problem)
    for tiles in sorted({1, problem.batch, 4 * problem.batch}):
        tiling = tuple(min(tiles, _most_tiles(problem, layer)) for layer in order)
        scheme = FusionScheme(order, (0,), tuple(range(1, n)), tiling)
        if score(problem, scheme, ks.PREFETCH, workspace).status is Status.SUCCESS:
            found.append(scheme)
    return found


def merged_start(
    problem: Problem, start: FusionScheme, objective: Objective, workspace: Workspace, deadline: float | None
) -> FusionScheme:
    """Fuse greedily: at every cut, first to last, the best of keeping it, making it fine-grained, and removing it.

    A removed cut leaves the tiling number of either side. Four passes at most, or until `deadline` (a `clock.wall_seconds` value); the
    number of schemes scored is about six per layer, which matters where scoring one takes long.
    """
    order, cut, tiles = start.arrays()

    def value() -> float:
        return scheme_value(problem, fusion_from_arrays(order, cut, tiles), objective, workspace)

    best = value()
    for _ in range(4):
        before = best
        for i in range(1, len(order)):
            if cut[i] == kf.NO_CUT:
                continue
            first = i - 1
            while cut[first] == kf.NO_CUT:
                first -= 1
            options = [(kf.NO_CUT, int(tiles[first])), (kf.NO_CUT, int(tiles[i]))]
            if cut[i] == kf.DRAM_CUT:
                options.append((kf.FINE_CUT, int(tiles[first])))
            kept = (int(cut[i]), int(tiles[first]))
            for option in options:
                old = (int(cut[i]), int(tiles[first]))
                cut[i], tiles[first] = option
                now = value()
                if now < best:
                    best, kept = now, option
                cut[i], tiles[first] = old
            cut[i], tiles[first] = kept
            if deadline is not None and clock.wall_seconds() > deadline:
                return fusion_from_arrays(order, cut, tiles)
        if best == before:
            break
    return fusion_from_arrays(order, cut, tiles)


def reordered(scheme: FusionScheme, order: tuple[int, ...]) -> FusionScheme:
    """An unfused scheme in another computing order."""
    tiling = dict(zip(scheme.order, scheme.tiling, strict=True))
    return FusionScheme(order, scheme.dram_cuts, scheme.fine_cuts, tuple(tiling[layer] for layer in order))


def scheme_value(problem: Problem, scheme: FusionScheme, objective: Objective, workspace: Workspace) -> float:
    """Objective of a scheme with greedy prefetching; infinite when it cannot run."""
    found = score(problem, scheme, ks.PREFETCH, workspace)
    return objective.score(found.energy_pj, found.latency_cycles) if found.status is Status.SUCCESS else math.inf


def _most_tiles(problem: Problem, layer: int) -> int:
    entry = problem.graph.layers[layer]
    return problem.batch * (4 if min(entry.H, entry.W) >= 4 else 1)


def fit(problem: Problem, scheme: FusionScheme) -> FusionScheme | Invalid:
    """The unfused scheme with tiles doubled, layer by layer, until every layer alone fits half the buffer, or just fits it.

    Returns:
        The scheme; or why the network cannot run: the layer whose smallest tile does not fit, with the sizes.
    """
    tiling = dict(zip(scheme.order, scheme.tiling, strict=True))
    for layer in range(len(problem.graph.layers)):
        chosen: int | None = None
        need = 0
        tiles = tiling[layer]
        while True:
            size = single_layer_bytes(problem, layer, tiles)
            if size is None:
                break
            need = size
            if size <= problem.limit_bytes // 2:
                chosen = tiles
                break
            if size <= problem.limit_bytes and chosen is None:
                chosen = tiles
            tiles *= 2
        if chosen is None:
            name = problem.graph.layers[layer].name
            return Invalid(
                Status.BUFFER_OVERFLOW,
                f"the smallest tile of layer {name!r} needs {need} bytes of buffer (weights, input and output), limit {problem.limit_bytes}",
                need,
            )
        tiling[layer] = chosen
    fitted = replace(scheme, tiling=tuple(tiling[layer] for layer in scheme.order))
    parsed = parse(problem, fitted)
    return parsed if isinstance(parsed, Invalid) else fitted


def single_layer_bytes(problem: Problem, layer: int, tiles: int) -> int | None:
    """Weights plus one input and one output tile of a layer cut into `tiles`; None when it cannot be cut so."""
    graph = problem.graph
    b, h, w, ch, cw = kf.split_output(graph.table, layer, problem.batch, tiles, False, False)
    if b == 0:
        return None
    entry = graph.layers[layer]
    total = entry.weight_bytes + entry.constant_bytes + b * entry.K * h * w
    total += b * sum(math.prod(graph.external_inputs[e]) for e in entry.whole_ext_prevs)
    flags = problem.options.flags
    edges = [(p, graph.layers[p].K, kind) for p, kind in entry.reads]
    edges += [(layer, graph.external_inputs[e][0], nw.IFMAP_EDGE) for e in entry.ext_prevs]
    shape = np.array([b, entry.K, h, w, ch, cw], np.int64)
    for producer, channels, edge in edges:
        nb, _c, nh, width = kf.requirement(graph.table, layer, edge, producer, shape, flags)
        total += nb * channels * nh * width
    return int(total)
