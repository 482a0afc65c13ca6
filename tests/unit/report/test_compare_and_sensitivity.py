"""Comparisons of optimisers, sensitivity to constants, exported designs: numbers checked by hand or by evaluating again."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from codesign.arch.constants import Constant
from codesign.cli.app import register_commands
from codesign.core.errors import UserError
from codesign.core.files import read_structured
from codesign.cost.cost import Cost, evaluate
from codesign.formats.load import load_inputs
from codesign.report.compare import Comparison, Group, compare, describe, rank_tests
from codesign.report.compare_files import write_all
from codesign.report.export import export_design
from codesign.report.sensitivity import analyse, sensitivity_csv
from codesign.study.study import Study


def group(name: str, finals: list[float], seeds: tuple[int, ...] = ()) -> Group:
    curves = np.array([[0.1, 0.5 * v, v] for v in finals])
    return Group(name, seeds or tuple(range(len(finals))), curves, (1.0,) * len(finals))


def test_trials_to_a_level_are_the_median_over_runs() -> None:
    made = group("a", [1.0, 2.0, 4.0, 0.2])
    assert made.trials_by_run(1.0) == (3, 2, 2, None)
    assert made.trials_to(1.0) == 2.5
    assert made.trials_to(1.5) is None  # two of four never do: the median is infinite
    assert made.trials_to(0.5) == 2.0


def test_rank_tests_give_the_known_values() -> None:
    high, low = group("high", [5.0, 6.0, 7.0, 8.0]), group("low", [1.0, 2.0, 3.0, 4.0])
    (test,) = rank_tests([low, high])
    assert (test.left, test.right, test.superiority) == ("high", "low", 1.0)
    assert test.p_value == pytest.approx(2 / 70)  # of the C(8, 4) orders two are as extreme
    assert test.least_p_value == pytest.approx(2 / 70)
    assert test.paired_p_value == pytest.approx(2 / 16)  # of the 2^4 signs two are as extreme
    (mixed,) = rank_tests([group("a", [1.0, 3.0, 5.0]), group("b", [2.0, 4.0, 6.0], (7, 8, 9))])
    assert (mixed.left, mixed.superiority) == ("b", pytest.approx(6 / 9))
    assert mixed.paired_p_value is None


def test_p_values_are_adjusted_for_the_number_of_pairs() -> None:
    groups = [group(n, [k + 10.0 * i for k in range(4)]) for i, n in enumerate("abc")]
    assert [t.p_value for t in rank_tests(groups)] == pytest.approx([3 * 2 / 70] * 3)


def test_a_comparison_in_words() -> None:
    high, low, single = group("high", [5.0, 6.0, 7.0, 8.0]), group("low", [1.0, 2.0, 3.0, 4.0]), group("one", [0.5])

    def said(*groups: Group) -> list[str]:
        tests = rank_tests(groups)
        return describe(Comparison("x on y", ("latency_s",), (1.0,), 10.0, (5.0,), groups, tests))

    first, second, third = said(high, low, single)
    assert first == "high ends highest: median hypervolume 6.5000 after 3 trials, 65 % of what all runs reach together."
    assert second == (
        "What low has after 3 trials (2.5000), high has after 2; the difference at the end is more than chance (p = 0.029)."
    )
    assert third == "What one has after 3 trials (0.5000), high has after 2; one run each says nothing of chance."
    close = said(group("a", [2.0, 4.0, 6.0]), group("b", [1.0, 3.0, 5.0]))
    assert "may be chance (p = 0.7, and 0.1 is the least so few runs can give)" in close[1]
    assert said(single) == [
        "one has a median hypervolume of 0.5000 after 3 trials, 5 % of what all runs reach together."
    ]


def test_a_comparison_is_written_in_every_form(study_folders: list[Path], tmp_path: Path) -> None:
    found = compare([Study.open(f) for f in study_folders], ["80%", "0.5"])
    assert found.levels == (pytest.approx(0.8 * found.best), 0.5)
    paths = write_all(found, tmp_path)
    assert [p.name for p in paths] == ["compare.html", "optimizers.csv", "curves.csv", "tests.csv", "table.tex"]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "curves.csv").read_text())))
    assert len(rows) == 4 * 12
    for g in found.groups:
        mine = [float(r["hypervolume"]) for r in rows if r["optimizer"] == g.optimizer and r["trial"] == "12"]
        assert sorted(mine) == pytest.approx(sorted(g.curves[:, -1]))
        assert max(mine) <= found.best * (1 + 1e-9)
    table = (tmp_path / "table.tex").read_text()
    assert table.count("\\\\") == 4 and "80\\,\\%" in table and "\\toprule" in table
    with pytest.raises(UserError, match="--level must be a positive number"):
        compare([Study.open(study_folders[0])], ["many"])


def test_resummed_energies_equal_the_recorded_mappings_evaluated_again(study_folder: Path) -> None:
    study = Study.open(study_folder)
    summed = analyse(study, factors=(0.5, 3.0))
    assert summed.exact == "sums" and {v.constant for v in summed.variations} >= {
        Constant.DRAM,
        Constant.SRAM,
        Constant.MAC,
    }
    # a breakdown that does not add up makes it evaluate every mapping on the scaled architecture instead
    study.trials[0].metrics["energy_j"] *= 1 + 1e-6
    again = analyse(study, factors=(0.5, 3.0))
    assert again.exact == "evaluated"
    for a, b in zip(summed.variations, again.variations, strict=True):
        assert (a.constant, a.factor, a.front) == (b.constant, b.factor, b.front)
        for number, metrics in a.metrics.items():
            for name, value in metrics.items():
                assert b.metrics[number][name] == pytest.approx(value, rel=1e-9), (a.constant, a.factor, number, name)


def test_searching_again_never_makes_a_design_worse(study_folder: Path) -> None:
    study = Study.open(study_folder)
    fixed = analyse(study, (Constant.DRAM,), (8.0,))
    searched = analyse(study, (Constant.DRAM,), (8.0,), remap=True)
    assert set(searched.remapped) == set(fixed.designs) and searched.gain >= 0
    for number in searched.remapped:
        assert searched.variations[0].metrics[number]["edp_js"] <= fixed.variations[0].metrics[number]["edp_js"]


def test_sensitivity_says_who_stays_and_writes_every_trial(study_folder: Path) -> None:
    found = analyse(Study.open(study_folder), (Constant.DRAM,), (1e-6, 1e6))
    rows = list(csv.DictReader(io.StringIO(sensitivity_csv(found))))
    assert len(rows) == 3 * 12
    by_hand = {r["trial"] for r in rows if r["factor"] == "1000000.0" and r["on_front"] == "1"}
    assert by_hand == {str(n) for n in found.variations[1].front}
    for variation in found.variations:
        assert all(m["power_w"] <= 0.6 for n, m in variation.metrics.items() if n in variation.front)
    with pytest.raises(UserError, match="--factor must be a positive number"):
        analyse(Study.open(study_folder), factors=(0.0,))


def test_an_exported_design_evaluates_to_the_recorded_figures(study_folder: Path, tmp_path: Path) -> None:
    study = Study.open(study_folder)
    trial = study.front()[0]
    files = export_design(study, trial.number, tmp_path)
    design = read_structured(tmp_path / "design.json")
    assert files[0] == tmp_path / "design.json" and design["point"] == trial.point
    assert len(design["layers"]) == len(study.detail(trial.number)["layers"])
    for layer, recorded in zip(design["layers"], study.detail(trial.number)["layers"], strict=True):
        place = tmp_path / layer["folder"]
        inputs = load_inputs([tmp_path / "arch.yaml", place / "problem.yaml", place / "mapping.yaml"])
        assert inputs.mapping is not None
        cost = evaluate(inputs.need_computation(), inputs.need_architecture(), inputs.mapping)
        assert isinstance(cost, Cost)
        assert cost.latency_cycles == recorded["latency_cycles"]
        assert cost.energy_pj == pytest.approx(recorded["energy_pj"], rel=1e-12)
        assert (tmp_path / "timeloop" / place.name / "arch.yaml").exists()
    with pytest.raises(UserError, match="has no trial 99"):
        export_design(study, 99, tmp_path)


def test_the_commands(study_folders: list[Path], tmp_path: Path) -> None:
    app = typer.Typer()
    register_commands(app, "compare", "report", "sensitivity")
    runner = CliRunner()

    def run(*arguments: str) -> str:
        done = runner.invoke(app, list(arguments))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.stdout

    folders = [str(f) for f in study_folders]
    text = run("compare", *folders, "--out", str(tmp_path / "c"), "--latex", str(tmp_path / "t.tex"), "--level", "90%")
    assert "lower quartile" in text and "90 %" in text and "…" not in text, "nothing is cut off at 80 columns"
    assert "Mann-Whitney" in text and (tmp_path / "c/compare.html").exists() and (tmp_path / "t.tex").exists()
    text = run("sensitivity", folders[0], "--constant", "dram", "--factor", "2", "--out", str(tmp_path / "s"))
    assert "designs on the front stay on it" in text and (tmp_path / "s/sensitivity.csv").exists()
    with pytest.raises(UserError, match="unknown constant 'dra'; did you mean 'dram'"):
        run("sensitivity", folders[0], "--constant", "dra")
    with pytest.raises(UserError, match="--export-design needs --to"):
        run("report", folders[0], "--export-design", "0")
    with pytest.raises(UserError, match="--to is used with --export-design only"):
        run("report", folders[0], "--to", str(tmp_path))
