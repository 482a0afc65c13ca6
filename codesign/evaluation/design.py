"""From a design point to its metrics: what the outer search evaluates."""

import importlib
import importlib.metadata
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError, unknown_name
from codesign.cost.cost import Infeasible
from codesign.evaluation.metrics import Metrics
from codesign.evaluation.network import EvaluationOptions, WorkloadResult, evaluate_workload
from codesign.mappers.protocol import Mapper
from codesign.workloads.workload import Workload

Point = Mapping[str, Any]

GROUP = "codesign.spaces"
"""Entry points of this group are the spaces the command line knows by name."""


class DesignSpace(Protocol):
    """A hardware space: a search space, and the architecture each of its points means."""

    @property
    def name(self) -> str:
        """What the command line calls it."""

    @property
    def space(self) -> Any:
        """The `codesign.optim.SearchSpace` of its points."""

    @property
    def bits(self) -> int:
        """Width of an operand on this hardware."""

    @property
    def partial_bits(self) -> int:
        """Width of a partial sum."""

    def build(self, point: Point) -> Architecture:
        """The architecture of a point, energies and areas filled in."""

    def to_json(self) -> dict[str, Any]:
        """What a study records of it."""


def load_design_space(name: str) -> DesignSpace:
    """A hardware space by name, or by ``module:attribute`` for a user's own.

    Raises:
        UserError: There is none of that name, or the module has no such attribute.
    """
    if ":" in name:
        module_name, _, attribute = name.partition(":")
        try:
            found: DesignSpace = getattr(importlib.import_module(module_name), attribute)
        except (ImportError, AttributeError) as error:
            raise UserError(f"cannot load space {name!r}: {error}") from None
        return found
    known = {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}
    if name not in known:
        raise unknown_name("space", name, known)
    loaded: DesignSpace = known[name].load()
    return loaded


@dataclass(frozen=True)
class Evaluation:
    """What evaluating one design gave.

    Args:
        metrics: Its figures; None when it is infeasible.
        infeasible: Why it is.
        seconds: Wall-clock time of the evaluation.
        detail: Layers, mappings and breakdowns as plain values; empty when infeasible.
        architecture: What was built, as plain values for the report.
    """

    metrics: Metrics | None
    infeasible: Infeasible | None
    seconds: float
    detail: dict[str, Any]
    architecture: dict[str, Any]


@dataclass(frozen=True)
class DesignEvaluator:
    """Judges designs of one space by one workload. Plain data, so it can be sent to other processes.

    Args:
        space: Where designs come from.
        workload: What they run.
        mapper: The inner search.
        options: How layers are mapped and networks summed.
    """

    space: DesignSpace
    workload: Workload
    mapper: Mapper
    options: EvaluationOptions

    def __call__(self, point: Point) -> Evaluation:
        """Evaluate one design."""
        started = time.perf_counter()
        architecture = self.space.build(point)
        result = evaluate_workload(self.workload, architecture, self.mapper, self.options)
        seconds = time.perf_counter() - started
        described = describe_architecture(architecture)
        if isinstance(result, Infeasible):
            return Evaluation(None, result, seconds, {}, described)
        assert isinstance(result, WorkloadResult)
        return Evaluation(result.metrics, None, seconds, result.to_json(), described)


def describe_architecture(architecture: Architecture) -> dict[str, Any]:
    """An architecture as plain values: sizes, areas, fan-outs by level."""
    levels = []
    for level, instances in zip(architecture.levels, architecture.instances, strict=True):
        levels.append(
            {
                "name": level.name,
                "kind": level.kind.value,
                "instances": instances,
                "capacity_bytes": level.capacity_bytes,
                "word_bits": level.word_bits,
                "banks": level.banks,
                "keep": sorted(level.keep),
                "area_mm2": None if level.area_mm2 is None else level.area_mm2 * instances,
                "leakage_mw": None if level.leakage_mw is None else level.leakage_mw * instances,
                "read_pj": None if level.energy is None else level.energy.read_pj,
                "read_bandwidth_bytes_per_cycle": None
                if level.read_bandwidth_words_per_cycle is None
                else level.read_bandwidth_words_per_cycle * level.word_bits / 8,
                "fanout": [level.fanout.x, level.fanout.y],
                "links": level.fanout.links.value,
            }
        )
    return {
        "name": architecture.name,
        "technology": architecture.technology,
        "clock_hz": architecture.clock_hz,
        "levels": levels,
        "mac": {
            "bits": architecture.mac.bits,
            "units": architecture.mac_units,
            "energy_pj": architecture.mac.energy_pj,
            "area_mm2": (architecture.mac.area_mm2 or 0.0) * architecture.mac_units,
        },
        "extra_area_mm2": architecture.extra_area_mm2,
        "area_mm2": architecture.area_mm2,
        "leakage_w": architecture.leakage_w,
    }
