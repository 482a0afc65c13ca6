"""The certificate of a whole network: every distinct layer with its own, and sums over the layers (rules NW1 to NW4).

What vector operators cost is computed here again, by rule E6 of docs/reference/evaluation.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.arch.files import architecture_from_json, architecture_to_json
from codesign.core.errors import UserError
from codesign.core.goals import Objective
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Infeasible, evaluate
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.verify.even.check import ROUNDING, verify_even
from codesign.verify.even.claims import EvenCertificate, certify, proof_from_document, proof_to_document
from codesign.verify.even.problem import make_space
from codesign.verify.imperfect.spatial_factors import refuse_uncovered as refuse_imperfect
from codesign.verify.places.place_program import refuse_places
from codesign.verify.verdict import Verdict
from codesign.workloads.computation import Computation
from codesign.workloads.network import Network
from codesign.workloads.network_json import network_from_json, network_to_json
from codesign.workloads.traffic import operator_traffic

NETWORK_RULES = (
    "networks NW1-NW4 of even mappings K1-K8, imperfect factors J1-J8, uneven mappings UK1-UK4, reuse timeloop"
)


SUMS = ("energy_pj", "latency_cycles", "bound")
"""Figures of a network that sums over its layers give."""


@dataclass(frozen=True)
class LayerProof:
    """One distinct layer.

    Args:
        operator: The first operator of the network that has it.
        proof: Its own certificate.
    """

    operator: str
    proof: EvenCertificate


@dataclass(frozen=True)
class NetworkCertificate:
    """A network on an architecture, with a certificate for every distinct layer.

    Args:
        network: At the widths at which it runs.
        architecture: On what.
        objective: What the mapping of each layer minimises.
        energy_pj: Of one run, leakage apart.
        latency_cycles: Of one run.
        bound: What the objective of the sums is not below, whatever the mappings (rule NW4).
        layers: Every distinct layer.
    """

    network: Network
    architecture: Architecture
    objective: Objective
    energy_pj: float
    latency_cycles: float
    bound: float
    layers: tuple[LayerProof, ...]

    @property
    def value(self) -> float:
        """The objective of the sums."""
        return self.objective.score(self.energy_pj, self.latency_cycles)


@dataclass(frozen=True)
class MappedOperator:
    """What a search says of one distinct layer.

    Args:
        operator: The first operator that has it.
        computation: The layer.
        mapping: What was found.
        shown: The bound that the search ended with; None where the mapping is optimal.
    """

    operator: str
    computation: Computation
    mapping: Mapping
    shown: float | None


ConstraintsOf = Callable[[Computation], Constraints]


def refuse_uncovered(
    network: Network,
    architecture: Architecture,
    objective: Objective,
    constraints_of: ConstraintsOf,
    *,
    imperfect: bool = False,
    uneven: bool = False,
) -> None:
    """Refuse what no certificate covers, before anything is searched.

    Raises:
        UserError: Some layer is not covered; the message names it.
    """
    for group in network.distinct_layers():
        try:
            space = make_space(
                MappingProblem(group.computation, architecture, constraints_of(group.computation)), objective
            )
            if imperfect:
                refuse_imperfect(space)
            if uneven:
                refuse_places(space)
        except UserError as error:
            raise error.within(f"layer {group.operators[0]!r}") from None


def certify_network(
    network: Network,
    architecture: Architecture,
    objective: Objective,
    found: list[MappedOperator],
    constraints_of: ConstraintsOf,
    *,
    imperfect: bool = False,
    uneven: bool = False,
) -> NetworkCertificate:
    """The certificate of a network whose layers a search has mapped; its claims are not tested here.

    Raises:
        UserError: Certificates do not cover a layer, or a mapping does not fit.
    """
    layers = []
    for item in found:
        problem = MappingProblem(item.computation, architecture, constraints_of(item.computation), imperfect)
        layers.append(LayerProof(item.operator, certify(problem, objective, item.mapping, item.shown, uneven=uneven)))
    sums = _sums(network, architecture, objective, tuple(layers))
    return NetworkCertificate(network, architecture, objective, *sums, tuple(layers))


def to_document(given: NetworkCertificate, form: str) -> JsonObject:
    """As lists, numbers and text."""
    return {
        "format": form,
        "rules": NETWORK_RULES,
        "objective": given.objective.value,
        **{key: getattr(given, key) for key in SUMS},
        "network": network_to_json(given.network),
        "architecture": architecture_to_json(given.architecture),
        "layers": [{"operator": x.operator, **proof_to_document(x.proof)} for x in given.layers],
    }


def from_document(document: dict[str, Any]) -> NetworkCertificate:
    """The certificate of a document; errors of any kind where a part is missing or wrong."""
    network = network_from_json(document["network"])
    architecture = architecture_from_json(document["architecture"])
    objective = Objective.parse(document["objective"], exponents=True)
    computations = {o.name: o.computation for o in network.operators}
    layers = []
    for n, item in enumerate(document["layers"]):
        computation = computations.get(item["operator"])
        if computation is None:
            raise UserError(f"`layers[{n}].operator` is no operator with multiply-accumulates: {item['operator']!r}")
        try:
            proof = proof_from_document(computation, architecture, objective, item)
        except UserError as error:
            raise error.within(f"`layers[{n}]`") from None
        layers.append(LayerProof(item["operator"], proof))
    energy_pj, cycles, bound = (float(document[key]) for key in SUMS)
    return NetworkCertificate(network, architecture, objective, energy_pj, cycles, bound, tuple(layers))


def verify_network(given: NetworkCertificate, stop: float) -> Verdict:
    """Check everything the certificate says; `stop` in CPU seconds of the process."""
    reason = _layers_fault(given)
    if reason is not None:
        return Verdict(False, reason)
    claims = walked = 0
    for n, layer in enumerate(given.layers):
        verdict = verify_even(layer.proof, stop, f"layers[{n}].")
        if not verdict.accepted:
            named = f"layer {layer.operator!r}" if "`" in verdict.reason else f"`layers[{n}]`, {layer.operator!r}"
            return Verdict(False, f"{named}: {verdict.reason}")
        claims, walked = claims + verdict.claims, walked + verdict.walked
    sums = _sums(given.network, given.architecture, given.objective, given.layers)
    for name, computed in zip(SUMS, sums, strict=True):
        said = float(getattr(given, name))
        if not math.isclose(said, computed, rel_tol=ROUNDING):
            return Verdict(False, f"`{name}` is {said:.17g}, the layers give {computed:.17g}")
    return Verdict(True, _told(given, claims, walked), claims, walked)


def _told(given: NetworkCertificate, claims: int, walked: int) -> str:
    open_ = sum(layer.proof.shown is not None for layer in given.layers)
    which = "all" if not open_ else str(len(given.layers) - open_)
    gap = given.value / given.bound - 1.0
    near = (
        "no mappings of the layers give less" if gap < ROUNDING else f"at most {gap:.3%} above what any mappings give"
    )
    return (
        f"{which} of {len(given.layers)} distinct layers are optimal, {claims} claims checked ({walked} by walking nests); "
        f"{given.objective.value} of the network: {near}"
    )


def _layers_fault(given: NetworkCertificate) -> str | None:
    """Whether every distinct layer stands once (rule NW1)."""
    wanted = {group.computation: group.operators[0] for group in given.network.distinct_layers()}
    if not wanted:
        return "`network` has no operator with multiply-accumulates"
    for n, layer in enumerate(given.layers):
        if wanted.pop(layer.proof.space.source.computation, None) is None:
            return f"`layers[{n}].operator`: the layer of {layer.operator!r} stands twice"
    missing = next(iter(wanted.values()), None)
    return None if missing is None else f"`layers` lacks the layer of operator {missing!r}"


def _sums(
    network: Network, architecture: Architecture, objective: Objective, layers: tuple[LayerProof, ...]
) -> tuple[float, float, float]:
    """Energy in pJ and cycles of one run, and the bound of their objective: `SUMS` (rules NW3 and NW4).

    Raises:
        UserError: A mapping does not fit.
    """
    count = {group.computation: group.count for group in network.distinct_layers()}
    n, m = objective.energy_exponent, objective.latency_exponent
    energy_pj, latency_cycles = vector_cost(network, architecture)
    root = objective.score(energy_pj, latency_cycles) ** (1.0 / (n + m))
    for layer in layers:
        computation = layer.proof.space.source.computation
        imperfect = layer.proof.imperfect is not None
        cost = evaluate(computation, architecture, layer.proof.mapping, imperfect=imperfect)
        if isinstance(cost, Infeasible):
            raise UserError(f"the mapping of layer {layer.operator!r} does not fit: {cost}")
        energy_pj += count[computation] * cost.energy_pj
        latency_cycles += count[computation] * cost.latency_cycles
        root += count[computation] * layer.proof.bound ** (1.0 / (n + m))
    return energy_pj, latency_cycles, min(root ** (n + m), objective.score(energy_pj, latency_cycles))


def vector_cost(network: Network, architecture: Architecture) -> tuple[float, float]:
    """Energy in pJ and cycles of what is no multiply-accumulate, activations and weights through DRAM (rule E6)."""
    dram, lanes = architecture.levels[0], max(architecture.mesh)
    energy = cycles = 0.0
    for operator, moved in zip(network.operators, operator_traffic(network), strict=True):
        energy += moved.operations * (architecture.mac.energy_pj or 0.0)
        if not operator.is_vector:
            continue
        read = (moved.input_bytes + moved.parameter_bytes) * 8 / dram.word_bits
        written = moved.output_bytes * 8 / dram.word_bits
        cycles += math.ceil(max(moved.operations / lanes, dram.busy_cycles(read, written)))
        if dram.energy is not None:
            energy += read * dram.energy.read_pj + written * dram.energy.update_pj
    return energy, cycles
