"""The document that says an even mapping is optimal."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.arch.files import architecture_from_json, architecture_to_json
from codesign.core.errors import UserError
from codesign.core.goals import Objective
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Infeasible, evaluate
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.files import constraints_from_json, constraints_to_json
from codesign.mapping.mapping import LevelMapping, Mapping
from codesign.verify.even.member import levels_of
from codesign.verify.even.problem import Kept, Space, Vector, make_space
from codesign.verify.even.screen import closed_bounds
from codesign.workloads.computation import Computation
from codesign.workloads.files import computation_from_json, computation_to_json

EVEN_RULES = "even mappings K1-K8, perfect factors, reuse timeloop"
SAME = 1e-9
"""Relative: mappings better by less do not count."""


@dataclass(frozen=True)
class EvenClaim:
    """That no mapping of a profile is below `bound`.

    Args:
        kept: By level and tensor.
        vectors: Spatial factors, by level and dimension.
        bound: Objective.
    """

    kept: Kept
    vectors: tuple[Vector, ...]
    bound: float


@dataclass(frozen=True)
class EvenCertificate:
    """A problem, a nest, and claims on the profiles that the closed bounds leave.

    Args:
        space: All mappings.
        nest: The mapping, level by level.
        value: Its objective.
        claims: In the order of the profiles.
        shown: What no mapping of the space is below; None where that is the value, so that the nest is optimal.
    """

    space: Space
    nest: tuple[LevelMapping, ...]
    value: float
    claims: tuple[EvenClaim, ...]
    shown: float | None = None

    @property
    def bound(self) -> float:
        """What the claims say that no mapping of the space is below."""
        return self.value if self.shown is None else self.shown


def open_profiles(space: Space, value: float) -> Iterator[tuple[Kept, list[tuple[Vector, ...]]]]:
    """By keep set, the profiles whose closed bounds are below a value (rule K5)."""
    objective = space.objective
    for kept in space.keep_sets():
        yield (
            kept,
            closed_bounds(space, kept, objective.energy_exponent, objective.latency_exponent, value * (1.0 - SAME)),
        )


def certify(
    problem: MappingProblem, objective: Objective, mapping: Mapping, shown: float | None = None
) -> EvenCertificate:
    """The certificate of a mapping that a search has proven optimal, or near the optimum.

    The claims are not tested here: `codesign.verify.even.check` does that.

    Args:
        problem: What was searched.
        objective: What was minimised.
        mapping: What was found.
        shown: The bound that the search ended with; None where the mapping is optimal.

    Raises:
        UserError: Certificates do not cover the problem, or the mapping does not fit.
    """
    space = make_space(problem, objective)
    cost = evaluate(problem.computation, problem.architecture, mapping)
    if isinstance(cost, Infeasible):
        raise UserError(f"the mapping does not fit: {cost}")
    value = objective.score(cost.energy_pj, cost.latency_cycles)
    bound = value if shown is None else shown
    claims = tuple(EvenClaim(kept, vectors, bound) for kept, found in open_profiles(space, bound) for vectors in found)
    return EvenCertificate(space, levels_of(mapping, problem.architecture), value, claims, shown)


def to_document(given: EvenCertificate, form: str) -> JsonObject:
    """As lists, numbers and text."""
    source = given.space.source
    return {
        "format": form,
        "rules": EVEN_RULES,
        "objective": given.space.objective.value,
        "problem": computation_to_json(source.computation),
        "architecture": architecture_to_json(source.architecture),
        **proof_to_document(given),
    }


def proof_to_document(given: EvenCertificate) -> JsonObject:
    """Value, constraints, nest and claims: what a certificate says of a problem, objective and architecture."""
    source = given.space.source
    dims = [source.computation.dims[i] for i in given.space.dims]
    tensors = [t.name for t in source.computation.tensors]
    names = [v.name for v in source.architecture.levels]
    return {
        "value": given.value,
        **({} if given.shown is None else {"shown": given.shown}),
        "constraints": constraints_to_json(source.constraints),
        "nest": [
            {"level": x.level, "keep": list(x.keep), "temporal": [list(p) for p in x.temporal], "spatial": [list(p) for p in x.spatial]}
            for x in given.nest
        ],
        "claims": [
            {
                "keep": {v: [t for t, k in zip(tensors, row, strict=True) if k] for v, row in zip(names, c.kept, strict=True)},
                "spatial": {
                    v: {d: f for d, f in zip(dims, row, strict=True) if f > 1}
                    for v, row in zip(names, c.vectors, strict=True)
                    if math.prod(row) > 1
                },
                "bound": c.bound,
            }
            for c in given.claims
        ],
    }  # fmt: skip


def from_document(document: dict[str, Any]) -> EvenCertificate:
    """The certificate of a document; errors of any kind where a part is missing or wrong."""
    computation = computation_from_json(document["problem"])
    architecture = architecture_from_json(document["architecture"])
    objective = Objective.parse(document["objective"], exponents=True)
    return proof_from_document(computation, architecture, objective, document)


def proof_from_document(
    computation: Computation, architecture: Architecture, objective: Objective, document: dict[str, Any]
) -> EvenCertificate:
    """What `proof_to_document` wrote; errors of any kind where a part is missing or wrong."""
    constraints = constraints_from_json(document["constraints"])
    space = make_space(MappingProblem(computation, architecture, constraints), objective)
    dims = [computation.dims[i] for i in space.dims]
    names = [v.name for v in architecture.levels]
    claims = tuple(
        EvenClaim(
            tuple(tuple(t.name in c["keep"][v] for t in computation.tensors) for v in names),
            tuple(tuple(int(c["spatial"].get(v, {}).get(d, 1)) for d in dims) for v in names),
            float(c["bound"]),
        )
        for c in document["claims"]
    )
    nest = tuple(
        LevelMapping(
            str(x["level"]),
            tuple(map(str, x["keep"])),
            tuple((str(d), int(f)) for d, f in x["temporal"]),
            tuple((str(d), int(f), a) for d, f, a in x["spatial"]),
        )
        for x in document["nest"]
    )
    shown = float(document["shown"]) if "shown" in document else None
    return EvenCertificate(space, nest, float(document["value"]), claims, shown)
