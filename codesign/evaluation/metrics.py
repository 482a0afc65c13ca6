"""What a design is judged by: latency, energy, power, area, or why it cannot be built or run."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codesign.core.errors import UserError, unknown_name

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture

OBJECTIVES: dict[str, str] = {
    "latency": "latency_s",
    "energy": "energy_j",
    "power": "power_w",
    "area": "area_mm2",
    "edp": "edp_js",
}
"""Short name on the command line -> field of `Metrics`. All are minimised."""

UNITS: dict[str, str] = {"latency_s": "s", "energy_j": "J", "power_w": "W", "area_mm2": "mm²", "edp_js": "J·s"}


OWN_UNITS: dict[str, str] = {
    "ttft_s": "s",
    "tpot_s": "s",
    "s_per_token": "s",
    "tokens_per_s": "1/s",
    "tokens_per_j": "1/J",
    "cost_usd": "USD",
}
"""Units of metrics that only some judges give."""


@dataclass(frozen=True)
class JudgedMetric:
    """A metric that only some judges give.

    Args:
        field: In the record of a trial.
        instead: The metric to minimise in its place, where it is better the greater it is.
    """

    field: str
    instead: str | None = None


@dataclass(frozen=True)
class Metrics:
    """Figures of one design on one workload.

    Args:
        latency_s: Time of one run of the workload.
        energy_j: Dynamic energy of that run plus leakage over its time.
        area_mm2: Of the chip, DRAM apart.
        leakage_w: Static power.
        own: Metrics of the user's own, by name; and figures that are no ratio or product of the others, as in a worst case.
    """

    latency_s: float
    energy_j: float
    area_mm2: float
    leakage_w: float
    own: tuple[tuple[str, float], ...] = ()

    @property
    def power_w(self) -> float:
        """Average power while running: energy over time, leakage included."""
        return self.energy_j / self.latency_s

    @property
    def edp_js(self) -> float:
        """Energy-delay product."""
        return self.energy_j * self.latency_s

    def to_dict(self) -> dict[str, float]:
        """Every figure by field name."""
        return {
            "latency_s": self.latency_s,
            "energy_j": self.energy_j,
            "power_w": self.power_w,
            "area_mm2": self.area_mm2,
            "edp_js": self.edp_js,
            "leakage_w": self.leakage_w,
            **dict(self.own),
        }


def area_of(architecture: "Architecture") -> float:
    """Area of a design in mm2.

    Raises:
        UserError: It has none.
    """
    area = architecture.area_mm2
    if area is None:
        raise UserError(
            "the design has no area: its technology fills in none",
            where=f"architecture {architecture.name!r}",
            hint="name a technology that has areas, or give every level an `area_mm2`",
        )
    return area


def metrics_of_sums(architecture: "Architecture", cycles: float, clock_hz: float, dynamic_pj: float) -> Metrics:
    """Metrics of a design from the cycles and the dynamic energy of everything it ran; leakage over that time is added."""
    latency_s, leakage_w = cycles / clock_hz, architecture.leakage_w
    return Metrics(latency_s, dynamic_pj * 1e-12 + leakage_w * latency_s, area_of(architecture), leakage_w)


def unit_of(metric: str) -> str:
    """The unit a metric is counted in; nothing for one of the user's own."""
    return UNITS.get(metric) or OWN_UNITS.get(metric, "")


def units_of(metrics: Iterable[str]) -> dict[str, str]:
    """The unit of every built-in metric and of these."""
    return {**UNITS, **{metric: unit_of(metric) for metric in metrics}}


def metric_field(name: str, *, kind: str = "objective") -> str:
    """The `Metrics` field of an objective or a bounded metric, by its short or its full name.

    Args:
        name: Either.
        kind: What it is, for the message.

    Raises:
        UserError: Neither.
    """
    if name in OBJECTIVES:
        return OBJECTIVES[name]
    if name in UNITS:
        return name
    raise unknown_name(kind, name, [*OBJECTIVES, *UNITS])


def format_si(value: float, unit: str) -> str:
    """A number with an SI prefix: ``format_si(0.00162, 's') == '1.62 ms'``; areas, costs and numbers without a unit have none."""
    if not unit:
        return f"{value:.4g}"
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    if unit.startswith("mm"):
        return f"{value:.3g} {unit}"
    if unit == "USD":
        return f"{value:,.2f} {unit}"
    prefixes = {0: "", -1: "m", -2: "µ", -3: "n", -4: "p", 1: "k", 2: "M", 3: "G", 4: "T"}
    power = max(-4, min(4, math.floor(math.log10(abs(value)) / 3)))
    return f"{value / 1000.0**power:.3g} {prefixes[power]}{unit}"


def figures_text(values: Sequence[float], metrics: Sequence[str]) -> str:
    """Values of metrics with their units, separated by commas."""
    return ", ".join(format_si(v, unit_of(m)) for v, m in zip(values, metrics, strict=True))
