"""`ServeOptions`: how layers are shared by chips, and how each layer's mapping is searched."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Objective

if TYPE_CHECKING:
    from codesign.mappers.protocol import Mapper

AUTO = "auto"
STEP_TIMES = ("layers", "segments")
"""Where times and energies of stages come from."""


@final
@dataclass(frozen=True)
class ServeOptions:
    """How layers are shared by chips, and how each layer's mapping is searched.

    Args:
        mapper: By name, or one of your own.
        objective: What each mapping or tree minimises: ``energy``, ``latency`` or ``edp``.
        time_limit_s: Seconds of search, per layer or tree.
        evaluations: Mappings or trees scored at most, per layer or tree.
        seed: Seed of every random choice.
        stages: Stages that the layers are cut into: a number, or ``auto`` for the most tokens a second; by default what the file says.
        micro_batches: Parts that pass the stages one behind another; by default what the file says.
        step_times: ``layers``, mapped one by one, or ``segments``: trees on the cores of a system of many cores.
    """

    mapper: "str | Mapper" = "exact"
    objective: str = "latency"
    time_limit_s: float | None = None
    evaluations: int | None = None
    seed: int = 0
    stages: int | str | None = None
    micro_batches: int | None = None
    step_times: str = "layers"

    def __post_init__(self) -> None:
        Objective.parse(self.objective)
        Budget(self.time_limit_s, self.evaluations)
        if isinstance(self.stages, str) and self.stages != AUTO:
            raise UserError(f"`stages` must be an integer >= 1 or {AUTO!r}, got {self.stages!r}")
        if self.step_times not in STEP_TIMES:
            raise unknown_name("kind of step times", self.step_times, STEP_TIMES)
        check_least(1, micro_batches=self.micro_batches)
        check_least(0, seed=self.seed)
