"""From a design point to its metrics: what the outer search evaluates."""

import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, final, runtime_checkable

from codesign.arch.architecture import Architecture, Ports, StorageLevel
from codesign.arch.technology_files import provenance_of
from codesign.core import clock
from codesign.core.errors import UserError, unknown_name
from codesign.core.plugins import entry_points
from codesign.core.point import Point, PointValue
from codesign.cost.cost import Infeasible
from codesign.evaluation.detail import Detail, NoDetail
from codesign.evaluation.metrics import Metrics
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.evaluation.records import ArchitectureRecord, LevelRecord, SpaceRecord
from codesign.mappers.protocol import Mapper
from codesign.workloads.workload import Workload

AS_BUILT = "as built"
"""How a study records that DRAM has the ports that the space gives it."""

GROUP = "codesign.spaces"
"""Entry points of this group are the spaces the command line knows by name."""


class BuildsArchitectures(Protocol):
    """A hardware space, as far as evaluators of whole networks are concerned."""

    def build(self, point: Mapping[str, PointValue]) -> Architecture:
        """The architecture of a point, energies and areas filled in."""


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

    def build(self, point: Mapping[str, PointValue]) -> Architecture:
        """The architecture of a point, energies and areas filled in."""

    def to_json(self) -> Mapping[str, Any]:
        """What a study records of it; see `SpaceRecord`."""


@runtime_checkable
class SpaceWithGoals(Protocol):
    """A space that says what a search of it minimises, keeps and measures."""

    @property
    def objectives(self) -> tuple[str, ...]:
        """Metrics that are minimised unless the search says otherwise; may be empty."""

    @property
    def bounds(self) -> tuple[str, ...]:
        """Bounds on metrics that every search keeps."""

    @property
    def metrics(self) -> tuple[tuple[str, Callable[[Any], float]], ...]:
        """Further metrics by name."""


@runtime_checkable
class SpaceWithRules(Protocol):
    """A space that takes further rules on its parameters."""

    def with_rules(self, rules: Sequence[str]) -> DesignSpace:
        """The space with the rules, each an expression over the parameters."""


@runtime_checkable
class SpaceWithChoices(Protocol):
    """A space whose designs can also choose a precision, zeros and what hardware does about them."""

    @property
    def choices(self) -> Any:
        """The `codesign.evaluation.choices.Choices` that were added; None: none."""

    def with_choices(self, choices: Any) -> DesignSpace:
        """The space with the `codesign.evaluation.choices.Choices`."""


@runtime_checkable
class SpaceWithTechnology(Protocol):
    """A space whose figures can come from another technology."""

    def with_technology(self, technology: str) -> DesignSpace:
        """The space with figures of the technology of that name."""


FILE_GROUP = "codesign.space_files"
"""Entry points of this group read spaces: `file` from a path, `definition` from what a study recorded of one."""

_SUFFIXES = (".yaml", ".yml", ".json")


def load_design_space(name: str) -> DesignSpace:
    """A hardware space by name, from a file, or by ``module:attribute`` for one written in Python.

    Args:
        name: An entry point's name, a path that ends in ``.yaml``, ``.yml`` or ``.json``, or ``module:attribute``; the module may lie in
            the current folder. ``@TECHNOLOGY`` behind it takes energies and areas from another table: ``scratchpad@cmos-7nm``.

    Raises:
        UserError: There is none of that name, the file or the module cannot be read, the attribute is no space, or the space fixes its technology.
    """
    plain, at, technology = name.rpartition("@")
    if at and not name.lower().endswith(_SUFFIXES):
        return _at_technology(load_design_space(plain), technology)
    if name.lower().endswith(_SUFFIXES):
        return _checked(_reader("file")(name), name)
    if ":" in name:
        return _space_of_module(name)
    known = {entry.name: entry for entry in entry_points(GROUP)}
    if name not in known:
        hint = "a space of your own is a file (mine.yaml) or module:attribute"
        error = unknown_name("space", name, known)
        raise UserError(error.message, hint=f"{error.hint}; {hint}")
    return _checked(known[name].load(), f"entry point {name!r}")


def _at_technology(space: DesignSpace, technology: str) -> DesignSpace:
    if not isinstance(space, SpaceWithTechnology):
        raise UserError(f"space {space.name!r} takes no other technology")
    return space.with_technology(technology)


def space_of_record(recorded: SpaceRecord) -> DesignSpace:
    """The space that a study recorded: from its definition, else where it came from, else by its name.

    Raises:
        UserError: It cannot be found.
    """
    if "definition" in recorded:
        return _checked(_reader("definition")(recorded["definition"]), "recorded space")
    return load_design_space(recorded.get("source", recorded["name"]))


def describe_space(space: DesignSpace, source: str) -> SpaceRecord:
    """What a study records of a space, and how it was named where its own name does not find it.

    Args:
        space: The space.
        source: What `load_design_space` was given.
    """
    recorded = cast(SpaceRecord, dict(space.to_json()))
    if ":" in source and "definition" not in recorded:
        recorded["source"] = source
    return recorded


def _reader(name: str) -> Any:
    found = {entry.name: entry for entry in entry_points(FILE_GROUP)}
    if name not in found:
        raise UserError(
            f"nothing is installed that reads a space's {name} (entry points {FILE_GROUP!r})",
            hint="install codesign again",
        )
    return found[name].load()


def _space_of_module(name: str) -> DesignSpace:
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does; the installed command does not
    try:
        module = importlib.import_module(module_name)
    except UserError as error:
        raise error.within(f"space {name!r}") from None
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(
            f"cannot load space {name!r}: {reason}", hint="the module must lie in this folder or be installed"
        ) from error
    if not hasattr(module, attribute):
        raise unknown_name(
            "attribute", attribute, [n for n in vars(module) if not n.startswith("_")], where=f"module {module_name!r}"
        )
    return _checked(getattr(module, attribute), f"{name}")


def _checked(space: Any, where: str) -> DesignSpace:
    """The value, if it has what a space needs.

    Raises:
        UserError: It lacks something.
    """
    missing = [
        part for part in ("name", "space", "bits", "partial_bits", "build", "to_json") if not hasattr(space, part)
    ]
    if missing:
        raise UserError(
            f"expected a hardware space, got {type(space).__name__} without {', '.join(missing)}",
            where=where,
            hint="make a spaces.design.DesignSpace(name, space, builder)",
        )
    found: DesignSpace = space
    return found


@dataclass(frozen=True)
class AlteredSpace(ABC):
    """A space whose designs are built otherwise; all else is that of the space inside.

    Args:
        inner: The space as it is.
    """

    inner: DesignSpace

    @property
    def name(self) -> str:
        """See `DesignSpace`."""
        return self.inner.name

    @property
    def space(self) -> Any:
        """See `DesignSpace`."""
        return self.inner.space

    @property
    def bits(self) -> int:
        """See `DesignSpace`."""
        return self.inner.bits

    @property
    def partial_bits(self) -> int:
        """See `DesignSpace`."""
        return self.inner.partial_bits

    @property
    def parts(self) -> Any:
        """Which parameters each part of an architecture depends on, where the inner space says so (docs/explanation/bounds.md)."""
        return getattr(self.inner, "parts", None)

    @abstractmethod
    def build(self, point: Mapping[str, PointValue]) -> Architecture:
        """See `DesignSpace`."""

    def to_json(self) -> Mapping[str, Any]:
        """See `DesignSpace`."""
        return self.inner.to_json()


@final
@dataclass(frozen=True)
class WithDramPorts(AlteredSpace):
    """A space whose DRAM is read as having a port each for reads and writes, or one for both (rules L2 and L4).

    Args:
        inner: The space as it is.
        ports: How every DRAM level is read.
    """

    ports: Ports

    def build(self, point: Mapping[str, PointValue]) -> Architecture:
        """See `DesignSpace`."""
        return self.inner.build(point).with_dram_ports(self.ports)


@dataclass(frozen=True)
class Evaluation:
    """What evaluating one design gave.

    Args:
        metrics: Its figures; None when it is infeasible.
        infeasible: Why it is.
        seconds: Wall-clock time of the evaluation.
        detail: Layers, mappings and breakdowns.
        architecture: What was built, as plain values for the report.
    """

    metrics: Metrics | None
    infeasible: Infeasible | None
    seconds: float
    detail: Detail
    architecture: ArchitectureRecord


def judged(
    space: BuildsArchitectures,
    point: Mapping[str, PointValue],
    judge: Callable[[Architecture], tuple[Metrics, Detail] | Infeasible],
) -> Evaluation:
    """Build a design and judge it; the one place that says what an evaluation holds."""
    started = clock.wall_seconds()
    architecture = space.build(point)
    described = describe_architecture(architecture)
    found = judge(architecture)
    seconds = clock.wall_seconds() - started
    if isinstance(found, Infeasible):
        return Evaluation(None, found, seconds, NoDetail(), described)
    metrics, detail = found
    return Evaluation(metrics, None, seconds, detail, described)


@dataclass(frozen=True)
class DesignEvaluator:
    """Judges designs of one space by one workload. Plain data, so it can be sent to other processes.

    Args:
        space: Where designs come from.
        workload: The networks that designs run.
        mapper: The inner search.
        options: How layers are mapped and networks summed.
    """

    space: DesignSpace
    workload: Workload
    mapper: Mapper
    options: EvaluationOptions

    def __call__(self, point: Point) -> Evaluation:
        """Evaluate one design."""
        return judged(self.space, point, self._judge)

    def _judge(self, architecture: Architecture) -> tuple[Metrics, Detail] | Infeasible:
        result = evaluate_workload(self.workload, architecture, self.mapper, self.options)
        return result if isinstance(result, Infeasible) else (result.metrics, result.detail())


def _bytes_per_cycle(level: StorageLevel, words_per_cycle: float | None) -> float | None:
    return None if words_per_cycle is None else words_per_cycle * level.word_bits / 8


def describe_architecture(architecture: Architecture) -> ArchitectureRecord:
    """An architecture as plain values: sizes, areas, fan-outs by level."""
    levels: list[LevelRecord] = []
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
                "read_bandwidth_bytes_per_cycle": _bytes_per_cycle(level, level.words_per_cycle[0]),
                "write_bandwidth_bytes_per_cycle": _bytes_per_cycle(level, level.words_per_cycle[1]),
                "ports": level.ports.value,
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
        "provenance": provenance_of(architecture.technology),
    }
