"""What recorded masks change: each layer's mapping costed with the zeros where they are, beside the same number of zeros anywhere (rule Z8)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from codesign.arch.architecture import Architecture
from codesign.core.json_types import JsonObject
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, evaluate
from codesign.evaluation.whole_network import NetworkResult
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation
from codesign.workloads.density import DENSE, Actual, Uniform
from codesign.workloads.network import Network
from codesign.workloads.network_zeros import NetworkZeros, with_zeros


@dataclass(frozen=True)
class MaskedLayer:
    """One distinct layer under one mapping.

    Args:
        name: Of the first operator with its computation.
        count: How many there are.
        uniform: Its cost with zeros anywhere.
        masked: Its cost with zeros where they were recorded.
    """

    name: str
    count: float
    uniform: Cost
    masked: Cost

    @property
    def energy_error(self) -> float:
        """How far the energy with zeros anywhere is off."""
        return self.uniform.energy_pj / self.masked.energy_pj - 1.0

    def to_json(self) -> JsonObject:
        """The fields as plain values that JSON can hold."""
        return {
            "name": self.name,
            "count": self.count,
            "energy_pj": self.masked.energy_pj,
            "uniform_energy_pj": self.uniform.energy_pj,
            "latency_cycles": self.masked.latency_cycles,
            "uniform_latency_cycles": self.uniform.latency_cycles,
            "macs_done": self.masked.zero_macs.actual if self.masked.zero_macs else self.masked.macs,
            "uniform_macs_done": self.uniform.zero_macs.actual if self.uniform.zero_macs else self.uniform.macs,
        }


@dataclass(frozen=True)
class MaskReport:
    """A network's matrix layers with recorded masks, without what happens between layers.

    Args:
        source: The file.
        layers: Those that could be costed both ways.
        failed: Layers whose mapping does not hold the recorded zeros, with the reason.
    """

    source: str
    layers: tuple[MaskedLayer, ...]
    failed: tuple[tuple[str, str], ...] = ()

    def _sum(self, field: str, which: str) -> float:
        return float(sum(x.count * getattr(getattr(x, which), field) for x in self.layers))

    @property
    def energy_error(self) -> float:
        """How far the energy of all layers is off with zeros anywhere."""
        return self._sum("energy_pj", "uniform") / self._sum("energy_pj", "masked") - 1.0

    @property
    def latency_error(self) -> float:
        """How far their cycles are off with zeros anywhere."""
        return self._sum("latency_cycles", "uniform") / self._sum("latency_cycles", "masked") - 1.0

    @property
    def worst(self) -> MaskedLayer:
        """The layer whose energy is farthest off."""
        return max(self.layers, key=lambda x: abs(x.energy_error))

    def to_json(self) -> JsonObject:
        """The fields as plain values that JSON can hold."""
        if not self.layers:
            return {"file": self.source, "layers": [], "failed": dict(self.failed)}
        return {
            "file": self.source,
            "energy_pj": self._sum("energy_pj", "masked"),
            "uniform_energy_error": self.energy_error,
            "latency_cycles": self._sum("latency_cycles", "masked"),
            "uniform_latency_error": self.latency_error,
            "layers": [x.to_json() for x in self.layers],
            "failed": dict(self.failed),
        }

    def describe(self) -> list[str]:
        """What real masks cost beside densities, in sentences."""
        lines = [f"{name}: not costed with its mask: {reason}" for name, reason in self.failed]
        if self.layers:
            worst = self.worst
            lines.insert(
                0,
                f"real masks   {self._sum('energy_pj', 'masked'):,.0f} pJ in {self._sum('latency_cycles', 'masked'):,.0f} cycles in matrix "
                f"layers; zeros spread evenly would be off by {self.energy_error:+.2%} in energy and {self.latency_error:+.2%} in cycles, "
                f"at most by {worst.energy_error:+.2%} in energy ({worst.name})",
            )
        return lines


def compare_masks(result: NetworkResult, zeros: NetworkZeros) -> MaskReport:
    """Cost each layer's mapping again with the recorded masks.

    Args:
        result: Of the network with the densities of the same file.
        zeros: That file.

    Raises:
        UserError: A mask cannot be read or does not fit its tensor.
    """
    given = [(x.name, x.count, x.result.mapping) for x in result.layers if x.result.mapping is not None]
    options = result.options
    return compare_mappings(
        result.network, result.architecture, given, zeros, reuse=options.reuse, imperfect=options.imperfect
    )


def compare_mappings(
    network: Network,
    architecture: Architecture,
    mappings: Sequence[tuple[str, float, Mapping]],
    zeros: NetworkZeros,
    *,
    reuse: Reuse = Reuse.TIMELOOP,
    imperfect: bool = False,
) -> MaskReport:
    """Cost mappings with the recorded masks, and with as many zeros anywhere.

    Args:
        network: With the densities of the same file.
        architecture: It runs on this.
        mappings: Of its layers: name, how many there are, mapping.
        zeros: The file.
        reuse: What a buffer need not fetch again.
        imperfect: Whether factors need not divide.

    Raises:
        UserError: A mask cannot be read or does not fit its tensor.
    """
    masked = with_zeros(network, zeros, masks=True).operator_by_name
    layers: list[MaskedLayer] = []
    failed: list[tuple[str, str]] = []
    for name, count, mapping in mappings:
        computation = masked[name].computation
        if computation is None:
            continue
        found = evaluate(computation, architecture, mapping, reuse=reuse, imperfect=imperfect)
        uniform = evaluate(_spread(computation), architecture, mapping, reuse=reuse, imperfect=imperfect)
        if isinstance(found, Cost) and isinstance(uniform, Cost):
            layers.append(MaskedLayer(name, count, uniform, found))
        else:
            failed.append((name, str(uniform if isinstance(found, Cost) else found)))
    return MaskReport(zeros.text, tuple(layers), tuple(failed))


def _spread(computation: Computation) -> Computation:
    """The same numbers of zeros, anywhere."""
    tensors = []
    for tensor in computation.tensors:
        density = tensor.density
        if isinstance(density, Actual):
            share = density.fraction(density.mask.shape)
            tensors.append(replace(tensor, density=DENSE if share == 1 else Uniform(share)))
        else:
            tensors.append(tensor)
    return replace(computation, tensors=tuple(tensors))
