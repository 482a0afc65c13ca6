"""Designs judged by their worst case over ranges of technology constants and over several workloads: rules R1 to R4 of docs/explanation/robust.md.

Energy rises with every energy constant and latency with every bandwidth that shrinks, for every mapping. So the worst technology of a range is
one corner, and the mappings found there cost no more anywhere else in the range.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, final

import numpy as np

from codesign.arch.architecture import Architecture, LevelKind
from codesign.arch.constants import Constant, scaled_architecture
from codesign.core.errors import UserError, unknown_name
from codesign.core.point import Point, PointValue
from codesign.evaluation.design import AlteredSpace, DesignEvaluator, DesignSpace, Evaluation
from codesign.evaluation.detail import NoDetail, ScenariosDetail
from codesign.evaluation.metrics import Metrics
from codesign.evaluation.records import ScenarioRecord
from codesign.evaluation.specification import JudgeSpec, WorkloadSpec

BANDWIDTH = "dram_bandwidth"
LENGTHS = ("batch", "seq", "past")
"""Lengths of a workload that may vary."""


@final
@dataclass(frozen=True)
class Ranges:
    """What varies.

    Args:
        factors: Least and largest factor of each technology constant, and of `BANDWIDTH`.
        lengths: The values that each length of the workload takes.
    """

    factors: Mapping[str, tuple[float, float]]
    lengths: Mapping[str, tuple[int, ...]]

    @property
    def worst(self) -> tuple[dict[Constant, float], float]:
        """The worst corner: factors of energy constants, and of the DRAM bandwidth (rule R2)."""
        constants = {Constant(name): high for name, (_, high) in self.factors.items() if name != BANDWIDTH}
        return constants, self.factors.get(BANDWIDTH, (1.0, 1.0))[0]


def parse_ranges(texts: Sequence[str]) -> Ranges:
    """Ranges such as ``dram=0.5:2``, ``dram_bandwidth=0.7:1`` and ``seq=128,1024``.

    Raises:
        UserError: An unknown name, a range whose ends are no positive numbers in order, or a name given twice.
    """
    factors: dict[str, tuple[float, float]] = {}
    lengths: dict[str, tuple[int, ...]] = {}
    constants = [c.value for c in Constant] + [BANDWIDTH]
    for text in texts:
        name, sign, values = text.partition("=")
        name = name.strip()
        if name not in (*constants, *LENGTHS):
            raise unknown_name("--vary", name, [*constants, *LENGTHS])
        if name in factors or name in lengths:
            raise UserError(f"--vary {name} is given twice")
        if name in LENGTHS:
            lengths[name] = _lengths(text, values, least=0 if name == "past" else 1)
        else:
            factors[name] = _factors(text, values if sign else "")
    return Ranges(factors, lengths)


def check_goals(how: JudgeSpec, metrics: Sequence[str], least: Sequence[str] = ()) -> None:
    """Refuse metrics whose worst case is not at the worst corner (rule R2).

    Args:
        how: The judge.
        metrics: Objectives and metrics of constraints.
        least: Metrics with a lower limit.

    Raises:
        UserError: Power among them where the bandwidth varies: a quicker run of the same energy takes more power. Or a lower
            limit: its worst case is the least figure, and the worst scenario has the largest.
    """
    if BANDWIDTH in parse_ranges(how.vary).factors and "power_w" in metrics:
        raise UserError(
            f"power_w has no worst case at the least {BANDWIDTH}: the same energy in less time is more power",
            hint=f"leave out --vary {BANDWIDTH}, or power among objectives and constraints",
        )
    if how.robust and least:
        raise UserError(
            f"--robust takes upper limits only, got {least[0]}>=...: its worst case is the least of all scenarios",
            hint="leave the lower limit out",
        )


def _factors(text: str, values: str) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in values.split(":"))
    except ValueError:
        low = high = math.nan
    if not 0.0 < low <= high < math.inf:
        raise UserError(
            f"--vary {text}: expected NAME=LOW:HIGH, two positive factors in order", hint="for example dram=0.5:2"
        )
    return low, high


def _lengths(text: str, values: str, *, least: int) -> tuple[int, ...]:
    try:
        found = tuple(int(v) for v in values.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < least:
        raise UserError(
            f"--vary {text}: expected NAME=VALUE,VALUE..., whole numbers of at least {least}",
            hint="for example seq=128,1024",
        )
    return found


def workloads_of(workload: WorkloadSpec, ranges: Ranges) -> list[tuple[str, WorkloadSpec]]:
    """Every network alone, at every combination of lengths, with a name each (rule R1)."""
    found = []
    for network, weight in zip(workload.networks, workload.all_weights, strict=True):
        for values in product(*ranges.lengths.values()):
            given: Any = dict(zip(ranges.lengths, values, strict=True))
            alone = replace(workload, networks=(network,), weights=(weight,), **given)
            found.append(("".join([network, *(f" {name} {v}" for name, v in given.items())]), alone))
    return found


@final
@dataclass(frozen=True)
class WithTechnology(AlteredSpace):
    """A space whose designs have some technology constants scaled.

    Args:
        inner: The space as it is.
        constants: Factors.
        bandwidth: Factor of the DRAM bandwidth.
    """

    constants: tuple[tuple[Constant, float], ...]
    bandwidth: float = 1.0

    def build(self, point: Mapping[str, PointValue]) -> Architecture:
        """See `DesignSpace`."""
        built = scaled_architecture(self.inner.build(point), dict(self.constants))
        return built if self.bandwidth == 1.0 else _with_bandwidth(built, self.bandwidth)


def need_bandwidth(space: DesignSpace) -> None:
    """Refuse a range of the DRAM bandwidth where designs have none, so that it would change nothing.

    Raises:
        UserError: No DRAM level of a design drawn from the space has a bandwidth.
    """
    point = space.space.to_points(space.space.sample(1, np.random.default_rng(0)))[0]
    levels = [v for v in space.build(point).levels if v.kind is LevelKind.DRAM]
    if all(v.words_per_cycle == (None, None) for v in levels):
        raise UserError(
            f"--vary {BANDWIDTH} changes nothing: no DRAM level of space {space.name!r} has a bandwidth",
            hint="give a level `kind: dram` and a bandwidth, or leave the range out",
        )


def _with_bandwidth(architecture: Architecture, factor: float) -> Architecture:
    def scaled(words: float | None) -> float | None:
        return None if words is None else words * factor

    levels = tuple(
        replace(
            level,
            read_bandwidth_words_per_cycle=scaled(level.read_bandwidth_words_per_cycle),
            write_bandwidth_words_per_cycle=scaled(level.write_bandwidth_words_per_cycle),
        )
        if level.kind is LevelKind.DRAM
        else level
        for level in architecture.levels
    )
    return replace(architecture, levels=levels)


@final
@dataclass(frozen=True)
class RobustEvaluator:
    """Judges designs by the worst of several scenarios, figure by figure. Plain data, so it can be sent to other processes.

    Args:
        scenarios: Names and evaluators; all build the same hardware.
    """

    scenarios: tuple[tuple[str, DesignEvaluator], ...]

    def __call__(self, point: Point) -> Evaluation:
        """Evaluate one design."""
        seconds, found, metrics, records = 0.0, None, [], list[ScenarioRecord]()
        for name, evaluate in self.scenarios:
            found = evaluate(point)
            seconds += found.seconds
            if found.metrics is None:
                return replace(found, seconds=seconds, detail=NoDetail())
            metrics.append(found.metrics)
            records.append({"name": name, "metrics": found.metrics.to_dict()})
        assert found is not None
        return replace(found, metrics=worst_of(metrics), seconds=seconds, detail=ScenariosDetail(tuple(records)))


def worst_of(metrics: Sequence[Metrics]) -> Metrics:
    """The largest of each figure; power and energy-delay product are the largest of any scenario, not a ratio or product of largest ones."""
    whole = {name: max(m.to_dict()[name] for m in metrics) for name in ("power_w", "edp_js")}
    return Metrics(
        max(m.latency_s for m in metrics),
        max(m.energy_j for m in metrics),
        max(m.area_mm2 for m in metrics),
        max(m.leakage_w for m in metrics),
        tuple(whole.items()),
    )
