"""Trees, systems and costs as SET and Gemini recorded them: every row equal, and better trees under the same rules."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from codesign.arch.chiplet_cost import GEMINI_MONEY, money
from codesign.core.errors import UserError
from codesign.core.files import write_json
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.evaluate import OWN_RULES, SEMANTICS, Evaluator
from codesign.scheduling.segments.search import SearchSettings, TreeSearch
from codesign.scheduling.segments.segment_tree import leaves
from codesign.scheduling.segments.tree_files import tree_to_json
from experiments.manycore import (
    Config,
    Totals,
    compare_scheme,
    main,
    money_error,
    recorded_edp,
    tabled_systems,
)
from experiments.manycore_contention import compare_searches, simulate_all
from experiments.manycore_records import Run, Scheme, evaluator_of, read_runs

DATA = Path(__file__).parents[1] / "data" / "manycore"


@cache
def runs(program: str) -> tuple[Run, ...]:
    return tuple(read_runs(DATA, program))


def schemes() -> list[tuple[Run, Scheme]]:
    return [(run, scheme) for program in ("set", "gemini") for run in runs(program) for scheme in run.schemes]


CASES = [pytest.param(run, scheme, id=f"{run.name} {scheme.name}") for run, scheme in schemes()]


@pytest.mark.parametrize(("run", "scheme"), CASES)
def test_every_row_is_equal(run: Run, scheme: Scheme) -> None:
    totals = Totals()
    compare_scheme(run, scheme, totals)
    assert totals.differing == []
    assert totals.rows == totals.dram_equal == totals.hops_equal == totals.cycles_equal == len(scheme.rows)
    assert totals.links_equal == totals.buffers_equal == totals.rows
    assert totals.energy_worst_error < 1e-9


@pytest.mark.parametrize(("run", "scheme"), CASES)
def test_stages_places_and_links_on_chip_are_equal(run: Run, scheme: Scheme) -> None:
    found = evaluator_of(run, scheme).evaluate(scheme.tree)
    shape, edges = found.arrays, evaluator_of(run, scheme).edges
    for i, node in enumerate(scheme.rows):
        if node["type"] == "S":
            children, child = [], int(shape.first[i])
            while child >= 0:
                children.append(int(shape.stage[child]))
                child = int(shape.next[child])
            assert (children, int(shape.stages[i])) == (node["stage"], node["num_stage"])
        if "cores" in node:
            assert [int(shape.core_first[i]), int(shape.core_past[i])] == node["cores"]
        if node["type"] == "L":
            span = range(int(edges.start[node["layer"]]), int(edges.start[node["layer"] + 1]))
            near = {int(edges.producer[e]) for e in span if found.on_chip[e]}
            assert sorted(near) == node["on_chip_prevs"]
            assert bool(found.stored[node["layer"]]) == node["to_dram"]


def test_unit_times_are_equal() -> None:
    for program in ("set", "gemini"):
        for run in runs(program):
            if run.core_known:
                ours = Evaluator(run.system, run.network, SEMANTICS[program]).unit_times[:, 0]
                np.testing.assert_allclose(ours, run.unit_times, rtol=1e-12)


def test_costs_are_equal_and_mended_where_faulty() -> None:
    first = runs("gemini")[0]
    tabled = tabled_systems(DATA / "gemini" / "money.csv", first.system)
    assert len(tabled) == 30
    assert max(money_error(money(system, GEMINI_MONEY), recorded) for system, recorded in tabled) < 1e-9
    for system, _ in tabled:
        faulty = system.dies.count == 1 or system.dies.package == "SI"
        assert (money(system).overall_usd > money(system, GEMINI_MONEY).overall_usd) == faulty


def test_mended_rules_count_what_the_release_drops() -> None:
    run = next(run for run in runs("set") if run.name == "goog_4x4_b1")
    (scheme,) = run.schemes
    own = Evaluator(run.system, run.network, OWN_RULES).evaluate(scheme.tree)
    assert own.rows[0].hops / scheme.rows[0]["eval"]["noc_hops"] == pytest.approx(1.109, abs=0.001)
    assert own.rows[0].dram_words == scheme.rows[0]["eval"]["dram_words"]


@pytest.mark.parametrize("program", ["set", "gemini"])
def test_a_search_finds_less_than_recorded_and_no_less_than_the_bound(program: str) -> None:
    run = next(run for run in runs(program) if run.name.startswith("bert_4x4"))
    evaluator = Evaluator(run.system, run.network, SEMANTICS[program])
    search = TreeSearch(evaluator, run.batch, SearchSettings(steps=40_000, least_use=0.75))
    found = search.run()
    assert search.value(search.best) == pytest.approx(np.log(found.evaluation.edp), abs=1e-9), "search and evaluation"
    assert sorted(leaf.layer for leaf in leaves(found.evaluation.root)) == list(range(len(run.network.layers)))
    bound = bound_of(evaluator, run.batch)
    assert bound.edp <= found.evaluation.edp < 0.95 * recorded_edp(run)
    recorded = evaluator.evaluate(run.schemes[-1].tree)
    assert bound.energy_pj <= recorded.rows[0].energy_pj and bound.time <= recorded.rows[0].time


@pytest.mark.parametrize("run", [*runs("set"), *runs("gemini")], ids=lambda run: run.name)
def test_no_recorded_scheme_is_below_the_bound(run: Run) -> None:
    for scheme in run.schemes if run.core_known else ():
        evaluator = evaluator_of(run, scheme)
        whole, bound = evaluator.evaluate(scheme.tree), bound_of(evaluator, run.batch)
        assert bound.energy_pj < whole.rows[0].energy_pj and bound.time < whole.rows[0].time and bound.edp < whole.edp


@pytest.mark.parametrize("run", [run for run in runs("gemini") if run.core_known], ids=lambda run: run.name)
def test_a_spent_budget_leaves_a_start_below_the_record(run: Run) -> None:
    evaluator = Evaluator(run.system, run.network, SEMANTICS["gemini"])
    found = TreeSearch(evaluator, run.batch, SearchSettings(seconds=0.0, least_use=0.0)).run()
    assert found.steps == 0 and found.evaluation.edp < 0.8 * recorded_edp(run)


def test_a_tree_of_ones_own_is_judged_beside_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = next(run for run in runs("set") if run.name == "bert_4x4_b1")
    evaluator, path = Evaluator(run.system, run.network, SEMANTICS["set"]), tmp_path / "tree.json"
    found = TreeSearch(evaluator, run.batch, SearchSettings(seconds=0.0, least_use=0.75)).run().evaluation
    write_json(path, tree_to_json(found.root, run.network))
    main(Config("set", DATA, tree=path, only=run.name))
    gap = bound_of(evaluator, run.batch).gap(found.edp)
    line = f"{found.edp:.4e}, {found.edp / recorded_edp(run):.3f} of recorded; gap {gap:.2f}; fits"
    assert line in capsys.readouterr().out


def test_the_command_ends_with_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    found = main(Config("set", DATA))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith('{"schemes": 3, ') and found["rows"] == found["cycles_equal"] == found["hops_equal"]


def test_recorded_schemes_on_the_routers(tmp_path: Path) -> None:
    mine = [replace(run, schemes=run.schemes[-1:]) for run in runs("set") if run.name.startswith("goog_4x4")]
    found = simulate_all(mine, None, tmp_path / "table.csv")
    assert found["simulated"] == found["simulated_complete"] == 1 and found["overtaken"] == 0
    (one,) = found["contended"]
    assert one["simulated"] >= one["free"] and one["edp"] == pytest.approx(recorded_edp(mine[0]))
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert len(lines) == 2 and lines[1].startswith("goog_4x4_b1 SET,") and '"1, 1"' in lines[1]


def test_searches_with_and_without_loads_in_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.manycore_contention.STEPS", 300)
    mine = [run for run in runs("set") if run.name.startswith("goog_4x4")]
    found = compare_searches(mine, 0)
    (one,) = found["in_view"]
    assert one["loss"] >= 1 and one["loss_in_view"] >= 1 and one["predicted"] > 0
    assert found["loss_in_view_worst"] == one["loss_in_view"] - 1


def test_searches_write_their_table(tmp_path: Path) -> None:
    found = main(Config("gemini", DATA, search=True, seconds=0.02, only="bert_4x4", table=tmp_path / "races.csv"))
    _, line = (tmp_path / "races.csv").read_text().splitlines()
    assert line.startswith("bert_4x4_b16") and float(line.split(",")[3]) == pytest.approx(
        found["gap_median"], abs=0.005
    )


def test_runs_are_picked_by_name() -> None:
    assert main(Config("gemini", DATA, only="6x6"))["schemes"] == 1
    with pytest.raises(UserError, match="no recorded run's name holds '9x9'"):
        main(Config("gemini", DATA, only="9x9"))
