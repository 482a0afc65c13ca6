"""Several networks, each with a weight, as one thing to design an accelerator for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from codesign.core.errors import UserError
from codesign.workloads.computation import Computation
from codesign.workloads.network import LayerGroup, Network


@dataclass(frozen=True)
class Workload:
    """Networks and how much each counts: a figure of the workload is the weighted sum of those of its networks.

    Args:
        networks: One or more.
        weights: As many numbers above 0.

    Raises:
        UserError: None, or not as many weights, or one that is not above 0.
    """

    networks: tuple[Network, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.networks:
            raise UserError("a workload needs at least one network, got none")
        if len(self.weights) != len(self.networks):
            raise UserError(
                f"expected {len(self.networks)} weights, one for each network, got {len(self.weights)}",
                hint="give one `--weights` number for each `--network`",
            )
        for network, weight in zip(self.networks, self.weights, strict=True):
            if isinstance(weight, bool) or not (math.isfinite(weight) and weight > 0):
                raise UserError(f"the weight of network {network.name!r} must be a number > 0, got {weight!r}")

    @classmethod
    def of(cls, networks: Sequence[Network], weights: Sequence[float] = ()) -> "Workload":
        """A workload; without weights every network counts once."""
        return cls(tuple(networks), tuple(weights) or (1.0,) * len(networks))

    @property
    def name(self) -> str:
        """The names of the networks, with weights other than 1."""
        parts = (n.name if w == 1 else f"{w:g}*{n.name}" for n, w in zip(self.networks, self.weights, strict=True))
        return "+".join(parts)

    @property
    def macs(self) -> float:
        """Weighted multiply-accumulates."""
        return sum(w * n.macs for n, w in zip(self.networks, self.weights, strict=True))

    def distinct_layers(self) -> tuple[LayerGroup, ...]:
        """The computations of all networks without repetition; counts are summed with the weights."""
        operators: dict[Computation, list[str]] = {}
        counts: dict[Computation, float] = {}
        for network, weight in zip(self.networks, self.weights, strict=True):
            for group in network.distinct_layers():
                names = (f"{network.name}/{name}" for name in group.operators)
                operators.setdefault(group.computation, []).extend(names)
                counts[group.computation] = counts.get(group.computation, 0) + weight * group.count
        return tuple(LayerGroup(c, tuple(names), counts[c]) for c, names in operators.items())
