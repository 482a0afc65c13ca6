"""A first scheme that fuses what the bound leaves on the chip (B1, docs/explanation/soma.md)."""

import math
from collections.abc import Iterator

from codesign.core import clock
from codesign.core.goals import Objective
from codesign.scheduling.soma.evaluator import Problem
from codesign.scheduling.soma.model.notation import FusionScheme
from codesign.scheduling.soma.search.baselines import scheme_value
from codesign.scheduling.soma.search.fusion_bound import leaving_edges
from codesign.scheduling.soma.search.fusion_search import Workspace

MOST_TILES = 64
"""Tiles for each sample of a fine-grained group at most."""

Span = tuple[int, int]
"""First place of a group and the place behind its last."""


def bound_start(
    problem: Problem,
    start: FusionScheme,
    objective: Objective,
    workspace: Workspace,
    deadline: float | None,
) -> FusionScheme:
    """The bound's fusion, made to fit: groups end only where data must leave the chip, and are halved where they do not fit.

    A group runs layer by layer, whole tensors staying between them, or tile by tile; the better fits are kept group by group.

    Args:
        problem: Network and machine.
        start: An unfused scheme that fits; its tiling numbers are those of groups of one layer.
        objective: What is minimised.
        workspace: Scratch memory.
        deadline: A `clock.wall_seconds` value at which to end with what has been settled; None for none.
    """
    tiling = dict(zip(start.order, start.tiling, strict=True))
    places = start.order
    settled: list[tuple[Span, bool, int]] = []  # group, tile by tile, tiles
    waiting = list(reversed(_spans(problem, places)))
    while waiting:
        span = waiting.pop()
        rest = [((i, i + 1), False, 0) for i in range(span[1], len(places))]
        best, chosen = math.inf, None
        late = deadline is not None and clock.wall_seconds() > deadline
        for by_tile, tiles in () if late else _shapes(problem, span):
            scheme = _scheme(places, [*settled, (span, by_tile, tiles), *rest], tiling)
            value = scheme_value(problem, scheme, objective, workspace)
            if value < best:
                best, chosen = value, (span, by_tile, tiles)
        if chosen is not None:
            settled.append(chosen)
        elif late or span[1] - span[0] == 1:
            settled += [((i, i + 1), False, 0) for i in range(*span)]
        else:
            middle = (span[0] + span[1]) // 2
            waiting += [(middle, span[1]), (span[0], middle)]
    return _scheme(places, settled, tiling)


def _spans(problem: Problem, order: tuple[int, ...]) -> list[Span]:
    """Groups as long as possible in which no tensor has to leave."""
    place = {layer: i for i, layer in enumerate(order)}
    leaving = [(place[a], place[b]) for a, b in leaving_edges(problem)]
    spans, first = [], 0
    for i in range(1, len(order)):
        if any(first <= a < i and b == i for a, b in leaving):
            spans.append((first, i))
            first = i
    return [*spans, (first, len(order))]


def _shapes(problem: Problem, span: Span) -> Iterator[tuple[bool, int]]:
    """Ways to run a group: layer by layer or tile by tile, with the number of tiles (0: as in the unfused scheme)."""
    if span[1] - span[0] == 1:
        yield False, 0
        return
    tiles = problem.batch
    yield False, 0
    yield False, tiles
    while tiles <= MOST_TILES * problem.batch:
        yield True, tiles
        tiles *= 2


def _scheme(order: tuple[int, ...], groups: list[tuple[Span, bool, int]], tiling: dict[int, int]) -> FusionScheme:
    """The scheme of these groups."""
    fine: list[int] = []
    tiles: list[int] = []
    for (first, end), by_tile, number in groups:
        if by_tile:
            tiles.append(number)
        else:
            fine += range(first + 1, end)
            tiles += [number or tiling[order[i]] for i in range(first, end)]
    return FusionScheme(order, tuple(span[0] for span, _, _ in groups), tuple(fine), tuple(tiles))
