"""Every registered part, and those of a small plug-in package, in the suites that plug-in authors inherit."""

import importlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codesign.arch.many_core_files import load_system
from codesign.mappers.registry import MAPPERS
from codesign.mappers.registry import create as create_mapper
from codesign.optim.sampling import Random
from codesign.scheduling.protocol import ScheduleProblem
from codesign.scheduling.registry import SCHEDULERS
from codesign.scheduling.registry import create as create_scheduler
from codesign.scheduling.segments.tree_files import tree_from_json
from codesign.scheduling.soma.evaluator import Schedule
from codesign.scheduling.soma.evaluator import evaluate as evaluate_encoding
from codesign.scheduling.soma.model.notation import encodings_from_json
from codesign.scheduling.soma.scheduler import KINDS
from codesign.testing import (
    MapperContract,
    OptimizerContract,
    ReaderContract,
    SchedulerContract,
    SpaceContract,
    TechnologyContract,
)

PLUGIN = Path(__file__).parents[2] / "example_plugin"
LAYERS = "32 64\n64 16\n"


@pytest.fixture(autouse=True, scope="module")
def plugin_on_path() -> Any:
    sys.path.insert(0, str(PLUGIN))
    yield
    sys.path.remove(str(PLUGIN))


def part(text: str) -> Any:
    module, _, name = text.partition(":")
    return getattr(importlib.import_module(f"accelerator_parts.{module}"), name)


FEWER: dict[str, dict[str, int]] = {"cosa": {"k": 2}}
"""Options under which a part keeps the same contract in less time: CoSA enumerates two schedules, not eight."""


def made_by(suite: type, name: str, make: Any) -> type:
    return type(f"Test{name}", (suite,), {"make": lambda self: make(name, **FEWER.get(name, {}))})


for registered in MAPPERS:
    globals()[f"TestMapper_{registered}"] = made_by(MapperContract, registered, create_mapper)


class SomaContract(SchedulerContract):
    """Schedules of SoMa's family are encodings, which its evaluator reads."""

    def again(self, found: Any) -> tuple[float | None, float | None] | None:
        problem = found.found.schedule.parsed.problem
        (encoding,) = encodings_from_json(found.detail["encoding"], problem.graph, "record")
        schedule = evaluate_encoding(problem, encoding)
        assert isinstance(schedule, Schedule)
        return float(schedule.latency_cycles), float(schedule.energy_pj)


class SegmentsContract(SchedulerContract):
    """Trees run on a system of their own, and are read by its evaluator."""

    refuses = frozenset({"dilation 2", "dilation 5", "shared keys"})

    def problem(self) -> ScheduleProblem:
        return replace(super().problem(), architecture=None)

    def capacity_bytes(self) -> int:
        return load_system("set-8x8").core.big.bytes

    def again(self, found: Any) -> tuple[float | None, float | None] | None:
        evaluator, _ = create_scheduler("segments").pose(self.problem())  # type: ignore[attr-defined]
        tree = tree_from_json(found.detail["tree"], evaluator.network, "record")
        (row, *_) = evaluator.evaluate(tree).rows
        return float(row.time), row.energy_pj


SUITES = {"segments": SegmentsContract, **dict.fromkeys(KINDS, SomaContract)}
"""Of schedulers whose records their evaluators read, or that have machines of their own."""

for registered in SCHEDULERS:
    suite = SUITES.get(registered, SchedulerContract)
    globals()[f"TestScheduler_{registered}"] = made_by(suite, registered, create_scheduler)

for suite in set(SUITES.values()):  # abstract without a scheduler
    del globals()[suite.__name__]


class TestPluginMapper(MapperContract):
    def make(self) -> Any:
        return part("mapper:OutermostMapper")()


class TestPluginScheduler(SchedulerContract):
    def make(self) -> Any:
        return part("scheduler:AsListed")()


class TestPluginOptimizer(OptimizerContract):
    def make(self, problem: Any) -> Any:
        return part("optimizer:Diagonal")(problem)


class TestRandomOptimizer(OptimizerContract):
    def make(self, problem: Any) -> Any:
        return Random(problem)


class TestPluginSpace(SpaceContract):
    def make(self) -> Any:
        return part("space:TWO_KNOBS")


class TestPluginTechnology(TechnologyContract):
    def make(self) -> Any:
        return part("technology:VARIANT")


class TestPluginReader(ReaderContract):
    @pytest.fixture(autouse=True)
    def written(self, tmp_path: Path) -> None:
        self.path = tmp_path / "net.layers"
        self.path.write_text(LAYERS)

    def make(self) -> Any:
        return part("reader:read_layers")

    def file(self) -> Path:
        return self.path


class Broken(MapperContract):
    """A mapper that lies about its cost: the suite must say so."""

    def make(self) -> Any:
        class Liar:
            name = "liar"

            def map(self, problem: Any, objective: Any, **limits: Any) -> Any:
                from dataclasses import replace

                found = create_mapper("random").map(problem, objective, **limits)
                return replace(found, cost=replace(found.cost, energy_pj=1.0))

        return Liar()


def test_a_suite_fails_for_a_part_that_breaks_its_law() -> None:
    suite = Broken()
    suite.test_it_has_a_name()
    with pytest.raises(AssertionError):
        suite.test_mappings_are_valid_and_cost_what_is_said()
    with pytest.raises(AssertionError):
        suite.test_no_mapping_beats_the_proven_optimum_and_proofs_are_true()


# ---- installed ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what `pip install` would write: the package, and its entry points."""
    import tomllib

    folder = tmp_path_factory.mktemp("site")
    (folder / "accelerator_parts").symlink_to(PLUGIN / "accelerator_parts")
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    info = folder / "accelerator_parts-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: accelerator-parts\nVersion: 0.1.0\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))
    return folder


def codesign(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "codesign.cli.app", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_the_commands_know_the_parts_by_name(installed: Path, tmp_path: Path) -> None:
    network = tmp_path / "net.layers"
    network.write_text(LAYERS)
    layer = "gemm M=16 N=16 K=16"
    mapped = codesign(installed, "map", "--arch", "eyeriss", "--layer", layer, "--mapper", "outermost", "--option", "most=30", "--format", "json")  # fmt: skip
    assert mapped.returncode == 0, mapped.stderr
    assert '"mapper": "outermost"' in mapped.stdout and '"evaluated": 30' in mapped.stdout
    explored = codesign(
        installed, "explore", "--network", str(network), "--space", "two-knobs", "--optimizer", "diagonal", "--mapper", "outermost",
        "--trials", "3", "--certify", "0", "--out", str(tmp_path / "run"), "--format", "json",
    )  # fmt: skip
    assert explored.returncode == 0, explored.stderr
    assert '"trials": 3' in explored.stdout


def test_a_wrong_option_of_a_plugged_in_part_is_named(installed: Path) -> None:
    refused = codesign(installed, "map", "--arch", "eyeriss", "--layer", "gemm M=4 N=4 K=4", "--mapper", "outermost", "--option", "mots=3")  # fmt: skip
    assert refused.returncode == 2
    assert "has no option 'mots'; did you mean 'most'?" in refused.stderr


def test_technologies_and_readers_are_found(installed: Path, tmp_path: Path) -> None:
    network = tmp_path / "net.layers"
    network.write_text(LAYERS)
    code = (
        f"import codesign; print(codesign.load_network({str(network)!r}).macs)\n"
        "from codesign.arch.technology_files import load_technology; print(load_technology('cmos-30nm-variant').name)"
    )
    env = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.stdout.split() == [str(32 * 64 + 64 * 16), "cmos-30nm-variant"], done.stderr
