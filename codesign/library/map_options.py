"""`MapOptions`: how mappings are searched."""

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from typing import Any, final

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.specification import BetweenLayers
from codesign.library.timing import TimingOptions
from codesign.mappers.padded_bounds import PaddingMapper
from codesign.mappers.protocol import Mapper
from codesign.mappers.ranged import RangedMapper
from codesign.mappers.registry import create
from codesign.mapping.constraints import Constraints


@final
@dataclass(frozen=True)
class MapOptions:
    """How mappings are searched.

    Args:
        mapper: By name: ``exact`` (with a proof), ``anneal``, ``cosa`` ...; or one of your own.
        mapper_options: Options of the mapper's own, by name.
        objective: ``energy``, ``latency`` or ``edp``.
        time_limit_s: Seconds of search, per layer.
        evaluations: Mappings scored at most, per layer.
        seed: Of every random choice.
        free_bypass: Whether the mapper may bypass levels where no constraint decides.
        imperfect: Whether the last iteration of a loop may be shorter (mappers anneal, random, genetic, exact).
        uneven: Whether every tensor of a level may have its own place among the loops, proven (mapper exact).
        pad: Whether bounds padded to sizes that divide better are tried too.
        reuse: What a buffer need not fetch again: ``timeloop``, ``walk`` or ``resident``.
        constraints: On every mapping, beside those of the architecture's file.
        between_layers: What happens to activations and weights between the layers of a network.
        timing: Whether runs are simulated by the event tier, and with which constants.
    """

    mapper: str | Mapper = "exact"
    mapper_options: MappingABC[str, Any] = field(default_factory=dict)
    objective: str = "edp"
    time_limit_s: float | None = None
    evaluations: int | None = None
    seed: int = 0
    free_bypass: bool = False
    imperfect: bool = False
    uneven: bool = False
    pad: bool = False
    reuse: str = "timeloop"
    constraints: Constraints = field(default_factory=Constraints)
    between_layers: BetweenLayers = field(default_factory=BetweenLayers)
    timing: TimingOptions = field(default_factory=TimingOptions)

    def __post_init__(self) -> None:
        Objective.parse(self.objective)
        Budget(self.time_limit_s, self.evaluations)
        if self.reuse.upper() not in Reuse.__members__:
            raise unknown_name("reuse rule", self.reuse, [r.name.lower() for r in Reuse])
        if self.seed < 0:
            raise UserError(f"`seed` must be >= 0, got {self.seed}")
        if self.uneven and self.mapper != "exact":
            raise UserError(f"`uneven` needs the mapper 'exact', got {self.mapper!r}")
        beside = {"pad": self.pad, "timing='event'": self.timing.event}
        for name, given in beside.items():
            if self.imperfect and given:
                raise UserError(f"`{name}` plays no part with `imperfect`", hint="leave one of them out")
        self.between_layers.rules()

    def searcher(self, architecture: Architecture) -> Mapper:
        """The mapper; with the event tier its best are simulated and ranked again.

        Args:
            architecture: Whose constants the event tier takes.

        Raises:
            UserError: No mapper has the name, or it has no such option.
        """
        made = self.mapper
        if isinstance(made, str):
            made = create(made, **self.mapper_options, **({"uneven": True} if self.uneven else {}))
        return self.timing.searcher(RangedMapper(PaddingMapper(made) if self.pad else made), architecture)

    def judged(self) -> EvaluationOptions:
        """The same for a whole network."""
        return EvaluationOptions(
            Objective.parse(self.objective),
            Budget(self.time_limit_s, self.evaluations),
            self.seed,
            Reuse[self.reuse.upper()],
            rules=self.between_layers.rules(),
            activation_bytes=self.between_layers.activation_bytes,
            constraints=self.constraints,
            imperfect=self.imperfect,
        )


DEFAULT_OPTIONS = MapOptions()
