"""What `import codesign` offers: three lines to an evaluation, results that say, plot and become tables."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import codesign
from codesign.library.results import AbstractResult
from tests.command_line import run

LAYER = "gemm M=16 N=16 K=16"


@pytest.fixture(scope="module")
def results() -> dict[str, AbstractResult]:
    schedule = codesign.ScheduleOptions("soma", evaluations=300, batch=1)
    found: dict[str, AbstractResult] = {
        "layer": codesign.map_layer(LAYER, "eyeriss"),
        "network": codesign.map_network("alexnet", "eyeriss", codesign.MapOptions("random", evaluations=50)),
        "fused": codesign.schedule("mobilenetv2", "soma-edge", schedule),
        "spilled": codesign.schedule("squeezenet", "soma-edge", codesign.ScheduleOptions("belady")),
        "choices": codesign.tensorize(
            "C[m,n] += A[m,k]*B[k,n]", "gemm", bounds={"m": 64, "n": 64, "k": 64}, size="16x16x16"
        ),
    }
    return found


@pytest.mark.parametrize("name", ["layer", "network", "fused", "spilled", "choices"])
def test_every_result_is_json_a_table_a_figure_and_a_view(results: dict[str, AbstractResult], name: str) -> None:
    found = results[name]
    assert json.loads(json.dumps(found.to_json()))["status"] in ("ok", "feasible")
    frame = found.to_frame()
    assert len(frame) == len(found.rows()) > 0
    assert found.plot().data, "an empty figure"
    view = found._repr_html_()
    assert view.startswith("<table>") and str(frame.columns[0]) in view


def test_figures_have_units_in_their_names(results: dict[str, AbstractResult]) -> None:
    units = ("_cycles", "_pj", "_bytes", "_mm2", "_s", "_j", "_w", "_js", "_words", "_macs")
    plain = {"utilization", "count", "macs", "gap", "reads", "fills", "updates", "calls", "choice", "choices", "step", "padding_waste"}  # fmt: skip
    for found in results.values():
        for row in (found.headline(), *found.rows()[:1]):
            numbers = {k for k, v in row.items() if isinstance(v, int | float) and not isinstance(v, bool)}
            assert all(k in plain or k.endswith(units) for k in numbers), numbers


def test_every_result_with_an_energy_names_its_provenance(results: dict[str, AbstractResult]) -> None:
    for name in ("layer", "network", "fused", "spilled"):
        document = results[name].to_json()
        record = document.get("provenance") or document["architecture"]["provenance"]  # type: ignore[index, call-overload]
        assert record["energy"] == "scaled", name  # type: ignore[index, call-overload]


def test_a_layer_is_proven_and_evaluates_to_the_same(tmp_path: Path) -> None:
    found = codesign.map_layer(LAYER, "eyeriss")
    assert found.proof.value == "optimal" and found.gap == 0
    again = codesign.evaluate(LAYER, "eyeriss", found.mapping)
    assert (again.latency_cycles, again.energy_pj) == (found.latency_cycles, found.energy_pj)
    assert found.latency_s == found.latency_cycles / found.architecture.clock_hz


def test_a_network_is_what_the_command_says() -> None:
    options = codesign.MapOptions("random", evaluations=50, seed=3)
    found = codesign.map_network("alexnet", "eyeriss", options)
    said = run(
        "map", "--network", "alexnet", "--arch", "eyeriss", "--mapper", "random", "--evaluations", "50",
        "--seed", "3", "--format", "json",
    )  # fmt: skip
    assert found.to_json()["metrics"] == said.json["metrics"]


def test_every_way_of_searching_is_what_the_command_says() -> None:
    cases: list[tuple[codesign.MapOptions, list[str]]] = [
        (codesign.MapOptions(uneven=True), ["--uneven"]),
        (codesign.MapOptions(timing=codesign.TimingOptions("event")), ["--timing", "event"]),
        (codesign.MapOptions("anneal", evaluations=300, imperfect=True), ["--imperfect", "--evaluations", "300"]),
    ]
    for options, flags in cases:
        layer = "gemm M=30 N=16 K=14"
        found = codesign.map_layer(layer, "eyeriss", options).to_json()
        said = run(
            "map", "--arch", "eyeriss", "--layer", layer, "--mapper", options.mapper, *flags, "--format", "json"
        ).json
        assert {k: said[k] for k in ("latency_cycles", "energy_pj", "proof")} == {k: found[k] for k in ("latency_cycles", "energy_pj", "proof")}  # fmt: skip
        assert said.get("analytic_cycles") == found.get("analytic_cycles")


def test_an_option_of_the_mapper_that_is_said_twice_is_given_once() -> None:
    options = codesign.MapOptions(uneven=True, mapper_options={"uneven": False})
    assert options.made_mapper == codesign.MapOptions(uneven=True).made_mapper


def test_an_uneven_nest_is_never_worse() -> None:
    even = codesign.map_layer("conv K=8 C=8 P=8 Q=8 R=3 S=3", "eyeriss")
    uneven = codesign.map_layer("conv K=8 C=8 P=8 Q=8 R=3 S=3", "eyeriss", codesign.MapOptions(uneven=True))
    assert uneven.proof.value == "optimal" and uneven.edp <= even.edp


def test_networks_are_timed_and_keep_what_the_command_keeps() -> None:
    timing, between = codesign.TimingOptions("event"), codesign.BetweenLayers("kept", 1 << 16, True)
    options = codesign.MapOptions("random", evaluations=20, timing=timing, between_layers=between)
    found = codesign.map_network("alexnet", "eyeriss", options)
    said = run(
        "map", "--network", "alexnet", "--arch", "eyeriss", "--mapper", "random", "--evaluations", "20", "--timing", "event",
        "--activations", "kept", "--activation-buffer", "64KiB", "--resident-weights", "--format", "json",
    ).json  # fmt: skip
    assert found.events is not None and found.to_json()["metrics"] == said["metrics"]
    assert found.headline()["event_latency_cycles"] == found.events.latency_cycles


def test_schedules_are_simulated() -> None:
    options = codesign.ScheduleOptions("cosma", timing=codesign.TimingOptions("event"))
    found = codesign.schedule("squeezenet", "soma-edge", options)
    said = run("schedule", "--network", "squeezenet", "--arch", "soma-edge", "--scheduler", "cosma", "--timing", "event", "--format", "json").json  # fmt: skip
    assert (found.latency_cycles, found.analytic_cycles) == (said["latency_cycles"], said["analytic_cycles"])
    with pytest.raises(codesign.UserError, match="does not simulate schedules of 'fused'"):
        codesign.schedule(
            "lenet5", "soma-edge", codesign.ScheduleOptions("fused", time_limit_s=5, timing=options.timing)
        )


def test_the_tiers_are_named_as_in_a_study() -> None:
    from codesign.evaluation import specification
    from codesign.library import timing

    assert timing.TIMINGS == specification.TIMINGS


def test_a_layer_is_read_at_another_precision() -> None:
    narrow = codesign.load_layer("gemm M=8 N=8 K=8", precision="W4A8")
    assert [(t.role.value, t.bits) for t in narrow.inputs] == [("input", 8), ("weight", 4)]
    network = codesign.load_network("alexnet", precision="W4A8")
    assert network.weight_bytes < codesign.load_network("alexnet").weight_bytes


SERVING = """format: codesign-serving-1
model: qwen2_5_0_5b
requests:
  - {prompt: 32, output: 4}
batch: 2
"""


def test_serving_is_what_the_command_says(tmp_path: Path) -> None:
    spec = tmp_path / "serving.yaml"
    spec.write_text(SERVING)
    found = codesign.serve(spec, "soma-cloud", codesign.ServeOptions("random", evaluations=30, seed=2))
    said = run("serve", spec, "--arch", "soma-cloud", "--mapper", "random", "--evaluations", "30", "--seed", "2", "--format", "json").result  # fmt: skip
    assert found.to_json() == said
    assert len(found.rows()) == 2 and found.plot().data and found.headline()["tpot_s"] == said["tpot_s"]
    assert not found.to_frame().empty and "tokens_per_s" in found._repr_html_()


def test_hardware_is_built(tmp_path: Path) -> None:
    options = codesign.BuildOptions(
        space="dotcore", design="pe_rows=4,pe_cols=4,banks=2", layer="gemm M=2 N=3 K=32", evaluations=10,
        simulate=True, simulator="amaranth",
    )  # fmt: skip
    built = codesign.build(out=tmp_path, options=options)
    assert built.mismatch is None and built.headline()["results"] == "equal"
    assert {"accelerator.v", "dram.bin"} <= {row["file"] for row in built.rows()} and built.plot().data


def test_what_cannot_run_is_a_value() -> None:
    tiny = codesign.load_architecture("eyeriss").with_level("GlobalBuffer", capacity_bytes=1)
    found = codesign.map_layer(LAYER, tiny)
    assert not found.feasible and found.to_json()["status"] == "infeasible"
    with pytest.raises(codesign.UserError, match="there is no mapping"):
        found.plot()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: codesign.map_layer(LAYER, "eyeris"), "did you mean 'eyeriss'"),
        (lambda: codesign.map_layer("gem M=1 N=1 K=1", "eyeriss"), "'gem'"),
        (lambda: codesign.map_network("resnet5", "eyeriss"), "did you mean 'resnet50'"),
        (lambda: codesign.map_layer(LAYER, "eyeriss", codesign.MapOptions("exakt")), "did you mean 'exact'"),
        (lambda: codesign.MapOptions(objective="speed"), "unknown objective 'speed'"),
        (lambda: codesign.MapOptions(reuse="timelop"), "did you mean 'timeloop'"),
        (lambda: codesign.MapOptions(seed=-1), "`seed` must be >= 0, got -1"),
        (lambda: codesign.ScheduleOptions(evaluations=0), "evaluations must be >= 1, got 0"),
        (lambda: codesign.load_architecture("eyeriss", clock_hz=0.0), "`clock_hz` must be > 0, got 0"),
        (lambda: codesign.schedule("alexnet", "soma-edge", codesign.ScheduleOptions("cosme")), "did you mean 'cosma'"),
        (lambda: codesign.open_study("no-such-folder"), "no study"),
        (lambda: codesign.MapOptions("anneal", uneven=True), "`uneven` needs the mapper exact, got 'anneal'"),
        (lambda: codesign.MapOptions(imperfect=True, pad=True), "`pad` plays no part with `imperfect`"),
        (lambda: codesign.TimingOptions("events"), "did you mean 'event'"),
        (lambda: codesign.TimingOptions(trace="a.json"), "`trace` is an option of `timing` event"),
        (lambda: codesign.TimingOptions("event", candidates=0), "`candidates` must be >= 1, got 0"),
        (lambda: codesign.ServeOptions(seed=-1), "`seed` must be >= 0, got -1"),
        (lambda: codesign.serve("none.yaml", "soma-cloud"), "none.yaml"),
        (lambda: codesign.BuildOptions(bus_bytes=0), "`bus_bytes` must be >= 1, got 0"),
        (lambda: codesign.build(), "what is to be built"),
        (lambda: codesign.TensorizeOptions(bits=0), "`bits` must be >= 1, got 0"),
        (lambda: codesign.map_files([], "zigzags"), "did you mean 'zigzag'"),
        (lambda: codesign.map_files([], "zigzag", codesign.MapOptions(pad=True)), "`pad` plays no part"),
        (lambda: codesign.check_certificate("none.json"), "file 'none.json' does not exist"),
        (lambda: codesign.load_layer(LAYER, precision="W4A8KV4"), "one layer has no cache"),
        (
            lambda: codesign.map_layer(LAYER, "eyeriss", codesign.MapOptions("random", evaluations=9)).certificate(),
            "no proof to certify",
        ),
        (
            lambda: codesign.map_network("alexnet", "eyeriss", codesign.MapOptions("random", evaluations=9, pad=True)),
            "`pad` is of one layer",
        ),
        (lambda: codesign.compare([]), "at least one study, got none"),
        (lambda: codesign.open_study(), "which study"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(codesign.UserError, match=message):
        call()


def test_everything_offered_is_there_and_nothing_else_is() -> None:
    for name in codesign.__all__:
        assert getattr(codesign, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'map_layers'"):
        _ = codesign.map_layers  # type: ignore[attr-defined]


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_brings_nothing_heavy() -> None:
    code = "import sys, codesign; dir(codesign); print([m for m in ('numpy', 'llvmlite', 'torch', 'typer', 'onnx') if m in sys.modules])"
    assert run_python(code).strip() == "[]"


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {names}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
sys.meta_path.insert(0, Blocked())
import codesign
"""
HEAVY = ("torch", "botorch", "gpytorch", "pymoo", "stable_baselines3", "sb3_contrib", "gymnasium", "pandas", "plotly")


def test_layers_are_mapped_without_the_heavy_packages() -> None:
    code = BLOCKED.format(names=HEAVY) + (
        f"found = codesign.map_layer({LAYER!r}, 'eyeriss'); print(found.proof.value)\n"
        "print(codesign.evaluate('alexnet', 'eyeriss', options=codesign.MapOptions('random', evaluations=20)).feasible)"
    )
    assert run_python(code).split() == ["optimal", "True"]


@pytest.mark.parametrize(
    ("use", "extra"),
    [
        (f"codesign.map_layer({LAYER!r}, 'eyeriss').to_frame()", "frames"),
        (f"codesign.map_layer({LAYER!r}, 'eyeriss').plot()", "plots"),
        (f"codesign.map_layer({LAYER!r}, 'eyeriss', codesign.MapOptions('genetic', evaluations=100))", "bo"),
    ],
)
def test_a_missing_package_names_its_extra(use: str, extra: str) -> None:
    code = BLOCKED.format(names=HEAVY) + f"try:\n    {use}\nexcept codesign.UserError as error:\n    print(error)"
    assert f"pip install 'accel-codesign[{extra}]'" in run_python(code)


def test_an_optimiser_without_its_package_names_the_extra() -> None:
    code = BLOCKED.format(names=HEAVY) + (
        "from codesign.optim import create\nfrom codesign.testing.optimizers import Grid\n"
        "try:\n    create('rl:ppo', Grid(), ['latency', 'area'])\nexcept codesign.UserError as error:\n    print(error)"
    )
    assert "pip install 'accel-codesign[rl]'" in run_python(code)
