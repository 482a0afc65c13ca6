"""What the experiments of HASCO's paper share: convolution layers, tables of designs, runs of optimisers on them, results and figures."""

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np
import numpy.typing as npt

from codesign.core.errors import UserError
from codesign.core.files import write_json
from codesign.optim import Frame, create
from codesign.optim.pareto import front
from codesign.tensorization.choice import TensorizeChoice
from codesign.workloads.computation import Computation
from codesign.workloads.load import load_network
from codesign.workloads.network import OperatorKind
from experiments.models.tensor_annealing import CoreCost, Layer, cost_on_core
from experiments.options import head_parser
from spaces.cores import core_of
from spaces.design import DesignSpace
from spaces.parameters import Value
from spaces.space import Space

FloatArray = npt.NDArray[np.float64]
Point = dict[str, Value]

OBJECTIVES = ("latency", "power", "area")
"""Columns of a table of designs: seconds, watts, square millimetres."""


@lru_cache(maxsize=8)
def convolutions(network: str) -> tuple[Layer, ...]:
    """The distinct convolutions of a network with their counts, 8-bit operands and 32-bit sums, in the network's order."""
    counts: dict[tuple[object, ...], int] = {}
    first: dict[tuple[object, ...], Computation] = {}
    for operator in load_network(network).operators:
        if operator.kind is OperatorKind.CONV and operator.computation is not None:
            computation = operator.computation.with_bits(8, 32)
            key = (computation.bounds, tuple(str(t) for t in computation.tensors))
            counts[key] = counts.get(key, 0) + 1
            first.setdefault(key, computation)
    return tuple(Layer(first[key], count) for key, count in counts.items())


def template_choice(choices: tuple[TensorizeChoice, ...]) -> TensorizeChoice:
    """What a hand-written template for convolutions on a matrix unit fixes: output channels by a row of pixels by input channels.

    A row of pixels is contiguous in DRAM. Where no choice takes the input channels (depthwise layers), the first one.
    """
    for choice in choices:
        taken = choice.index_map
        if {taken.get("i"), taken.get("j"), taken.get("k")} == {"K", "Q", "C"}:
            return choice
    return choices[0]


@dataclass(frozen=True)
class Sweep:
    """How designs are judged.

    Args:
        space: The designs.
        layers: What they run.
        evaluations: Programs scored per layer.
        seed: Of the program searches.
    """

    space: DesignSpace
    layers: tuple[Layer, ...]
    evaluations: int
    seed: int

    def judge(self, point: Mapping[str, Value]) -> CoreCost | None:
        """What a design needs for the layers; None if some call fits no memory."""
        found = cost_on_core(self.layers, core_of(self.space, point), evaluations=self.evaluations, seed=self.seed)
        return found if isinstance(found, CoreCost) else None

    def objectives(self, point: Mapping[str, Value]) -> tuple[float, float, float]:
        """Latency, power and area of a design, infinite if it cannot run the layers."""
        cost = self.judge(point)
        return (np.inf, np.inf, np.inf) if cost is None else (cost.latency_s, cost.power_w, cost.area_mm2)


@dataclass(frozen=True)
class Table:
    """Every design of a space, judged.

    Args:
        sweep: Its space and how it was judged.
        points: The designs.
        values: `OBJECTIVES` of each: ``n x 3``.
    """

    sweep: Sweep
    points: tuple[Point, ...]
    values: FloatArray

    @classmethod
    def of(cls, sweep: Sweep, workers: int = 1) -> "Table":
        """Judge every design of the space."""
        space = sweep.space.space
        points = space.to_points(space.enumerate())
        if workers == 1:
            rows = [sweep.objectives(point) for point in points]
        else:
            with ProcessPoolExecutor(workers) as pool:
                rows = list(pool.map(_objectives, repeat(sweep), points, chunksize=8))
        return cls(sweep, tuple(points), np.array(rows))

    @cached_property
    def bare(self) -> Space:
        """The space without presets: they would give every method the same first design, and the paper's methods start from nothing."""
        space = self.sweep.space.space
        return Space(space.parameters, constraints=space.constraints)

    @cached_property
    def row_of(self) -> dict[bytes, int]:
        """Row of each design, by its indices in `bare`."""
        return {row.tobytes(): k for k, row in enumerate(self.bare.to_indices(self.points))}

    def allowed(self, limits: Mapping[str, float]) -> npt.NDArray[np.bool_]:
        """Which designs keep upper limits on objectives: ``n``."""
        highest = np.array([limits.get(name, np.inf) for name in OBJECTIVES])
        return np.asarray((np.isfinite(self.values) & (self.values <= highest)).all(axis=1))


def _objectives(sweep: Sweep, point: Point) -> tuple[float, float, float]:
    return sweep.objectives(point)


@dataclass(frozen=True)
class Method:
    """An optimiser as the paper used it.

    Args:
        name: For tables.
        optimizer: Name in the registry.
        options: Its options.
    """

    name: str
    optimizer: str
    options: tuple[tuple[str, int], ...] = ()


def methods(prior: int) -> tuple[Method, ...]:
    """Random search, NSGA-II with a population of 5, MOBO with so many designs before its first model."""
    return (
        Method("random", "random"),
        Method("nsga2", "nsga2:5"),
        Method("mobo", "mobo", (("initial", prior),)),
    )


def drive(table: Table, method: Method, trials: int, seed: int, limits: Mapping[str, float]) -> FloatArray:
    """Objectives of each trial in order, infinite for designs beyond a limit: ``trials x 3``."""
    optimizer = create(
        method.optimizer,
        table.bare,
        OBJECTIVES,
        seed=seed,
        options=dict(method.options),
        constraints=[f"{n}<={v}" for n, v in limits.items()],
    )
    allowed = table.allowed(limits)
    found: list[FloatArray] = []
    while len(found) < trials:
        asked = optimizer.ask(1)
        if not asked:
            break
        number = table.row_of[table.bare.to_indices(asked)[0].tobytes()]
        row = table.values[number]
        works = bool(np.isfinite(row).all())
        optimizer.tell(asked[0], dict(zip(OBJECTIVES, row.tolist(), strict=True)) if works else {}, feasible=works)
        found.append(row if allowed[number] else np.full(len(OBJECTIVES), np.inf))
    return np.array(found)


@dataclass(frozen=True)
class Comparison:
    """Optimisers on one table of designs.

    Args:
        curves: For each method the share of the exact front's hypervolume after each trial: ``seeds x trials``.
        runs: For each method the objectives of the trials: ``seeds x trials x 3``.
        exact: The exact front: ``f x 3``.
    """

    curves: dict[str, FloatArray]
    runs: dict[str, FloatArray]
    exact: FloatArray

    def quartiles(self, method: str, trial: int) -> list[float]:
        """Of the share after so many trials: lower quartile, median, upper quartile."""
        quartiles: list[float] = np.percentile(self.curves[method][:, trial - 1], [25, 50, 75]).tolist()
        return quartiles

    def hypervolume_ratio(self, better: str, worse: str) -> list[float]:
        """Ratio of final hypervolumes, seed by seed: lower quartile, median, upper quartile."""
        ratios = self.curves[better][:, -1] / np.maximum(self.curves[worse][:, -1], 1e-12)
        quartiles: list[float] = np.percentile(ratios, [25, 50, 75]).tolist()
        return quartiles

    def passes(self, better: str, worse: str) -> int | None:
        """The trial at which one method's median curve passes the other's final median; None if it does not."""
        median = np.median(self.curves[better], axis=0)
        above = np.flatnonzero(median >= np.median(self.curves[worse][:, -1]))
        return int(above[0]) + 1 if len(above) else None

    def to_json(self) -> dict[str, Any]:
        """Quartiles of the curves."""
        return {
            name: {"quartiles": np.percentile(c, [25, 50, 75], axis=0).tolist(), "final": c[:, -1].tolist()}
            for name, c in self.curves.items()
        }


def compare(
    table: Table,
    ways: Sequence[Method],
    trials: int,
    seeds: Sequence[int],
    limits: Mapping[str, float],
    workers: int = 1,
) -> Comparison:
    """Run every method with every seed.

    Hypervolume of (latency, power, area) in logarithms, scaled by the exact front's ideal and nadir points, reference point 5 % beyond the
    nadir (`codesign.optim.Frame`), as a share of the exact front's.

    Raises:
        UserError: No design keeps the limits.
    """
    allowed = table.allowed(limits)
    if not allowed.any():
        raise UserError(f"no design keeps {dict(limits)}")
    exact = front(table.values[allowed])
    frame = Frame.of_front(exact)
    whole = frame.hypervolume(exact)
    beyond = np.array(frame.nadir) * 1e6
    curves, runs = {}, {}
    for way in ways:
        given = (repeat(table), repeat(way), repeat(trials), seeds, repeat(limits))
        if workers == 1:
            done = list(map(drive, *given))
        else:
            with ProcessPoolExecutor(workers) as pool:
                done = list(pool.map(drive, *given))
        runs[way.name] = np.array(done)
        curves[way.name] = np.array([frame.curve(np.where(np.isfinite(r), r, beyond)) for r in done]) / whole
    return Comparison(curves, runs, exact)


def scalar_best(run: FloatArray, ideal: FloatArray) -> FloatArray:
    """The one design of a run that is reported: least product of latency, power and area over the ideal point's: ``3``."""
    score = np.where(
        np.isfinite(run).all(axis=1), np.log(np.where(np.isfinite(run), run, 1.0) / ideal).sum(axis=1), np.inf
    )
    best: FloatArray = run[int(np.argmin(score))]
    return best


def write_results(out: Path, config: object, results: Mapping[str, Any]) -> None:
    """`results.json` with configuration and versions."""
    out.mkdir(parents=True, exist_ok=True)
    recorded = json.loads(json.dumps(asdict(config), default=str))  # type: ignore[call-overload]
    versions = {"python": platform.python_version(), "llvmlite": llvmlite.__version__, "numpy": np.__version__}
    document = {"config": recorded, "versions": versions, **json.loads(json.dumps(results, default=_plain))}
    write_json(out / "results.json", document)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def write_figure(figure: Any, out: Path) -> None:
    """`figure.html`."""
    figure.update_layout(template="plotly_white")
    figure.write_html(out / "figure.html", include_plotlyjs=True)


def base_parser(description: str | None, out: Path) -> argparse.ArgumentParser:
    """Options that all of these experiments take."""
    return head_parser(description, out=out, seed=0, smoke="a tiny run, to see that everything works")
