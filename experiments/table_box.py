"""Real design spaces that were evaluated in full, as black boxes: see `experiments.exhaustive`."""

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from codesign.bounds import DesignBounds
from codesign.core.errors import UserError
from codesign.optim.pareto import front
from experiments.exhaustive import TABLES, Row, cases, read_table
from spaces import Space

Floats = NDArray[np.float64]

METRICS = {"latency": "latency_s", "energy": "energy_j", "area": "area_mm2", "power": "power_w"}


@final
@dataclass(frozen=True)
class TableBox:
    """A black box that looks its answers up.

    Args:
        name: Of the case and its table.
        objectives: The metrics to minimise.
        power_limit_w: A bound on power, if any.
        folder: Where the table is.
    """

    name: str
    objectives: tuple[str, ...] = ("latency", "energy", "area")
    power_limit_w: float | None = None
    folder: Path = TABLES

    @property
    def space(self) -> Space:
        """The designs."""
        found: Space = cases()[self.name].space.space
        return found

    @property
    def bounds(self) -> DesignBounds:
        """What no design can be below, whatever its mappings; one for all boxes of the case."""
        return _bounds(self.name)

    @cached_property
    def rows(self) -> dict[bytes, Row]:
        """The table by choice indices.

        Raises:
            UserError: The table is not complete.
        """
        path = self.folder / f"{self.name}.csv"
        table, designs = read_table(path), self.space.enumerate()
        if len(table) < len(designs):
            raise UserError(
                f"the table has {len(table)} of {len(designs)} designs",
                where=str(path),
                hint=f"python -m experiments.exhaustive --case {self.name}",
            )
        return {indices.tobytes(): table[k] for k, indices in enumerate(designs)}

    def evaluate(self, point: dict[str, Any]) -> tuple[dict[str, float], bool]:
        """The metrics of one design and whether it works; none for one that does not."""
        row = self.rows[self.space.to_indices([point])[0].tobytes()]
        if not np.isfinite(row.latency_s):
            return {}, False
        return {name: float(getattr(row, column)) for name, column in METRICS.items()}, True

    def exact_front(self) -> Floats:
        """The front of the whole space, in objective units: ``k x m``."""
        working = [
            row
            for row in self.rows.values()
            if np.isfinite(row.latency_s) and (self.power_limit_w is None or row.power_w <= self.power_limit_w)
        ]
        return front(np.array([[getattr(row, METRICS[o]) for o in self.objectives] for row in working]))


@cache
def _bounds(name: str) -> DesignBounds:
    case = cases()[name]
    return DesignBounds(case.space, case.network)


def table_boxes() -> dict[str, TableBox]:
    """The enumerated spaces by name."""
    return {name: TableBox(name) for name in cases()}
