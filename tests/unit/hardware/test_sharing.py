"""Which spatial loops run along rows and which along columns."""

from dataclasses import replace

import pytest

from codesign.arch.architecture import Links
from codesign.hardware import sharing
from codesign.hardware.lanes import Start, result_emissions
from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.sharing import Fold, shared_out
from codesign.mapping.mapping import Axis, Spatial

P = Parameters("m", Control.NEST, 8, 8, Links.MULTICAST, 8, 1 << 15, 64, frozenset("B"), 8, 32)


def spatial(dim: str, factor: int, axis: Axis) -> Spatial:
    return Spatial(dim, factor, level="Scratchpad", axis=axis)


def lines_of(
    factors: list[int], moves: list[bool], columns: list[bool], p: Parameters, fold: Fold | None = None
) -> int:
    return sharing.lines_of(factors, moves, columns, fold, p.links is not Links.NONE, p.slots)


def axes(loops: list[tuple[Spatial, int]]) -> list[str]:
    return [node.axis for node, _ in loops]


def test_loops_that_move_the_result_go_to_columns_and_those_that_add_to_rows() -> None:
    loops = [(spatial("k", 7, "y"), 1), (spatial("c", 8, "x"), 1)]
    found, fold = shared_out(loops, [True, False], P)
    assert axes(found) == ["x", "y"] and fold is None
    assert lines_of([7, 8], [True, False], [False, True], P) == 7
    assert lines_of([7, 8], [True, False], [True, False], P) == 1


def test_a_loop_that_does_not_fit_on_the_other_axis_stays() -> None:
    loops = [(spatial("k", 7, "y"), 1), (spatial("c", 8, "x"), 1)]
    assert shared_out(loops, [True, False], replace(P, cols=8, rows=7)) == (loops, None)


def test_a_loop_wider_than_the_columns_is_folded() -> None:
    loops = [(spatial("k", 7, "y"), 1), (spatial("c", 3, "x"), 1)]
    p = replace(P, cols=4)
    found, fold = shared_out(loops, [True, False], p)
    assert axes(found) == ["x", "y"] and fold == Fold(0, 4, 2)  # three rows for the first four, three for the rest
    assert lines_of([7, 3], [True, False], [False, True], p) == 7
    assert lines_of([7, 3], [True, False], [True, False], p, fold) == 2
    assert shared_out(loops, [True, False], replace(p, rows=5)) == (loops, None)  # six rows are too many


def test_nothing_changes_where_results_leave_in_one_line_already() -> None:
    loops = [(spatial("c", 7, "y"), 1), (spatial("k", 8, "x"), 1)]
    assert shared_out(loops, [False, True], P) == (loops, None)


@pytest.mark.parametrize("links", [Links.NONE, Links.MULTICAST])
@pytest.mark.parametrize("rows", [(3, True), (3, False), (1, True)])
@pytest.mark.parametrize("cols", [(5, True), (5, False), (8, True)])
def test_the_count_is_that_of_the_collector(links: Links, rows: tuple[int, bool], cols: tuple[int, bool]) -> None:
    p = replace(P, links=links, banks=2)
    by_column = [4 * x * cols[1] for x in range(cols[0])]
    by_row = [4 * 8 * y * rows[1] for y in range(rows[0])]
    made = result_emissions(tuple(by_row), tuple(by_column), p.line_bytes, Start.WORD, links is not Links.NONE)
    assert lines_of([rows[0], cols[0]], [rows[1], cols[1]], [False, True], p) == len(made.lines)
