"""`MapOptions`: how mappings are searched."""

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.evaluation.specification import BetweenLayers
from codesign.library.timing import TimingOptions

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.cost.arrays import Reuse
    from codesign.evaluation.network import EvaluationOptions
    from codesign.mappers.protocol import Mapper
    from codesign.mapping.constraints import Constraints


@final
@dataclass(frozen=True)
class MapOptions:
    """How mappings are searched.

    Args:
        mapper: By name: ``exact`` (with a proof), ``anneal``, ``cosa`` ...; or one of your own.
        mapper_options: Options of the mapper's own, by name.
        objective: ``energy``, ``latency`` or ``edp`` (energy x latency).
        time_limit_s: Seconds of search, per layer.
        evaluations: Mappings scored at most, per layer.
        seed: Seed of every random choice.
        free_bypass: Whether the mapper may bypass levels where no constraint decides.
        imperfect: Whether the last iteration of a loop may be shorter, and children of a fan-out idle in the last pass (mappers
            anneal, random, genetic, exact).
        uneven: Whether every tensor of a level may have its own place among the loops, proven (mapper exact).
        pad: Whether bounds padded to sizes that divide better are tried too; padded work counts as work.
        reuse: What a buffer need not fetch again: ``timeloop`` (that tool's rule), ``walk`` (the same, walked truly) or
            ``resident`` (all it still holds).
        constraints: On every mapping, beside those of the architecture's file.
        between_layers: What happens to activations and weights between the layers of a network.
        timing: Whether runs are simulated by the event tier, and with which constants.
    """

    mapper: "str | Mapper" = "exact"
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
    constraints: "Constraints | None" = None
    between_layers: BetweenLayers = field(default_factory=BetweenLayers)
    timing: TimingOptions = field(default_factory=TimingOptions)

    def __post_init__(self) -> None:
        Objective.parse(self.objective)
        Budget(self.time_limit_s, self.evaluations)
        if self.reuse != "timeloop":
            self.rule  # noqa: B018 - refuses what is none; the default asks for no import
        check_least(0, seed=self.seed)
        if self.uneven and self.mapper != "exact":
            raise UserError(f"`uneven` needs the mapper exact, got {self.mapper!r}")
        for name, given in {"`pad`": self.pad, "`timing` event": self.timing.event}.items():
            if self.imperfect and given:
                raise UserError(f"{name} plays no part with `imperfect`", hint="leave one of them out")
        if self.between_layers != BetweenLayers():
            self.between_layers.rules()

    @property
    def goal(self) -> Objective:
        """What is minimised."""
        return Objective.parse(self.objective)

    @property
    def budget(self) -> Budget:
        """Of each layer's search."""
        return Budget(self.time_limit_s, self.evaluations)

    @property
    def rule(self) -> "Reuse":
        """What a buffer need not fetch again.

        Raises:
            UserError: There is no such rule.
        """
        from codesign.cost.arrays import Reuse

        return Reuse.parse(self.reuse)

    @property
    def made_mapper(self) -> "Mapper":
        """The mapper that is named, or given.

        Raises:
            UserError: No mapper has the name, or it has no such option.
        """
        from codesign.mappers.registry import create

        if not isinstance(self.mapper, str):
            return self.mapper
        return create(self.mapper, **{**self.mapper_options, **({"uneven": True} if self.uneven else {})})

    def searcher(self, architecture: "Architecture") -> "Mapper":
        """The mapper of one layer, with ranges of factors and padded bounds; see `network_searcher`."""
        from codesign.mappers.padded_bounds import PaddingMapper
        from codesign.mappers.ranged import RangedMapper

        made = self.made_mapper
        return self.timing.searcher(RangedMapper(PaddingMapper(made) if self.pad else made), architecture)

    def network_searcher(self, architecture: "Architecture") -> "Mapper":
        """The mapper of every layer of a network; with the event tier its best are simulated and ranked again.

        Args:
            architecture: Whose constants the event tier takes.

        Raises:
            UserError: No mapper has the name, or it has no such option.
        """
        return self.timing.searcher(self.made_mapper, architecture)

    def judged(self) -> "EvaluationOptions":
        """The same for a whole network."""
        from codesign.evaluation.network import EvaluationOptions
        from codesign.mapping.constraints import Constraints

        return EvaluationOptions(
            self.goal,
            self.budget,
            self.seed,
            self.rule,
            rules=self.between_layers.rules(),
            activation_bytes=self.between_layers.activation_bytes,
            constraints=self.constraints or Constraints(),
            imperfect=self.imperfect,
        )


DEFAULT_OPTIONS = MapOptions()
