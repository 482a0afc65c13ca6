"""The document that says a mapping is optimal: even or not, perfect factors or not."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.arch.files import architecture_from_json, architecture_to_json
from codesign.core.errors import UserError
from codesign.core.goals import Objective
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Infeasible, evaluate
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.files import constraints_from_json, constraints_to_json, mapping_from_json, mapping_to_json
from codesign.mapping.mapping import LevelMapping, Mapping
from codesign.verify.even.member import levels_of
from codesign.verify.even.problem import Kept, Space, Vector, make_space
from codesign.verify.even.screen import closed_bounds, left_open
from codesign.verify.even.wide_keep_sets import WIDE, open_together
from codesign.verify.imperfect.imperfect_bounds import imperfect_bound
from codesign.verify.imperfect.spatial_factors import open_profiles as open_imperfect
from codesign.verify.imperfect.spatial_factors import refuse_uncovered
from codesign.verify.places.place_program import PlaceBounds, refuse_places
from codesign.workloads.computation import Computation
from codesign.workloads.files import computation_from_json, computation_to_json

EVEN_RULES = "even mappings K1-K8, perfect factors, reuse timeloop"
PLACE_RULES = "uneven mappings UK1-UK4, perfect factors, reuse timeloop"
IMPERFECT_RULES = "even mappings J1-J8, imperfect factors, K1-K8 for perfect ones, reuse timeloop"
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
        imperfect: Claims on the profiles of imperfect factors; None where factors are perfect. With them `claims` are of
            perfect mappings, and none where no tensor has windows (rule J1).
        places: Claims on the profiles of uneven mappings; None where mappings are even. With them there are no `claims`.
        uneven: The uneven mapping; `nest` is then empty.
    """

    space: Space
    nest: tuple[LevelMapping, ...]
    value: float
    claims: tuple[EvenClaim, ...]
    shown: float | None = None
    imperfect: tuple[EvenClaim, ...] | None = None
    places: tuple[EvenClaim, ...] | None = None
    uneven: Mapping | None = None

    @property
    def perfect_apart(self) -> bool:
        """Whether even mappings with perfect factors are bounded by rules of their own (rule J1)."""
        return self.places is None and (self.imperfect is None or any(self.space.sliding))

    @property
    def mapping(self) -> Mapping:
        """The mapping, even or not."""
        return Mapping.from_levels(self.nest) if self.uneven is None else self.uneven

    @property
    def bound(self) -> float:
        """What the claims say that no mapping of the space is below."""
        return self.value if self.shown is None else self.shown


def open_profiles(space: Space, value: float) -> Iterator[tuple[Kept, list[tuple[Vector, ...]]]]:
    """By keep set, the profiles whose closed bounds are below a value (rule K5)."""
    limit, n, m = value * (1.0 - SAME), space.objective.energy_exponent, space.objective.latency_exponent
    each = ((kept, closed_bounds(space, kept, n, m, limit)) for kept in space.keep_sets())
    for kept, found in each if space.n_keep_sets < WIDE else open_together(space, limit).items():
        yield kept, left_open(space, kept, found, limit)


def certify(
    problem: MappingProblem, objective: Objective, mapping: Mapping, shown: float | None = None, *, uneven: bool = False
) -> EvenCertificate:
    """The certificate of a mapping that a search has proven optimal, or near the optimum.

    The claims are not tested here: `codesign.verify.even.check` does that.

    Args:
        problem: What was searched.
        objective: What was minimised.
        mapping: What was found.
        shown: The bound that the search ended with; None where the mapping is optimal.
        uneven: Whether the space has uneven mappings too.

    Raises:
        UserError: Certificates do not cover the problem, or the mapping does not fit.
    """
    space = make_space(replace(problem, imperfect=False), objective)
    if problem.imperfect:
        refuse_uncovered(space)
    if uneven:
        refuse_places(space)
    cost = evaluate(problem.computation, problem.architecture, mapping, imperfect=problem.imperfect)
    if isinstance(cost, Infeasible):
        raise UserError(f"the mapping does not fit: {cost}")
    value = objective.of(cost)
    bound = value if shown is None else shown
    if problem.imperfect:
        found = imperfect_bound(space, bound)
        bound, shown = (bound, shown) if found >= bound * (1.0 - SAME) else (found, found)
    if uneven:
        found = place_bound(space, bound)
        bound, shown = (bound, shown) if found >= bound * (1.0 - SAME) else (found, found)
        profiles = open_profiles(space, bound)
        places = tuple(EvenClaim(kept, vectors, bound) for kept, listed in profiles for vectors in listed)
        return EvenCertificate(space, (), value, (), shown, None, places, mapping)
    given = EvenCertificate(
        space, levels_of(mapping, problem.architecture), value, (), shown, () if problem.imperfect else None
    )
    return replace(given, claims=claims_of(given), imperfect=imperfect_claims_of(given))


def place_bound(space: Space, wanted: float) -> float:
    """The most, up to `wanted`, that the rules UK show that no uneven mapping is below."""
    found = wanted
    for kept, profiles in open_profiles(space, wanted):
        bounds = PlaceBounds(space, kept)
        for vectors in profiles:
            found = min(found, bounds.least(vectors, found, math.inf))
    return found


def claims_of(given: EvenCertificate) -> tuple[EvenClaim, ...]:
    """A claim for every profile of perfect factors that closed bounds leave."""
    if not given.perfect_apart:
        return ()
    profiles = open_profiles(given.space, given.bound)
    return tuple(EvenClaim(kept, vectors, given.bound) for kept, found in profiles for vectors in found)


def imperfect_claims_of(given: EvenCertificate) -> tuple[EvenClaim, ...] | None:
    """A claim for every profile of imperfect factors that closed bounds leave (rule J6)."""
    if given.imperfect is None:
        return None
    limit = given.bound * (1.0 - SAME)
    return tuple(
        EvenClaim(kept, vectors, given.bound)
        for kept in given.space.keep_sets()
        for vectors in open_imperfect(given.space, kept, limit)
    )


def to_document(given: EvenCertificate, form: str) -> JsonObject:
    """As lists, numbers and text."""
    source = given.space.source
    return {
        "format": form,
        "rules": IMPERFECT_RULES
        if given.imperfect is not None
        else EVEN_RULES
        if given.places is None
        else PLACE_RULES,
        "objective": given.space.objective.value,
        "problem": computation_to_json(source.computation),
        "architecture": architecture_to_json(source.architecture),
        **proof_to_document(given),
    }


def proof_to_document(given: EvenCertificate) -> JsonObject:
    """Value, constraints, nest and claims: what a certificate says of a problem, objective and architecture."""
    source = given.space.source
    return {
        "value": given.value,
        **({} if given.shown is None else {"shown": given.shown}),
        "constraints": constraints_to_json(source.constraints),
        "nest": [
            {"level": x.level, "keep": list(x.keep), "temporal": [list(p) for p in x.temporal], "spatial": [list(p) for p in x.spatial]}
            for x in given.nest
        ],
        "claims": _claims_to_json(given.space, given.claims),
        **({} if given.imperfect is None else {"imperfect": _claims_to_json(given.space, given.imperfect)}),
        **({} if given.places is None else {"places": _claims_to_json(given.space, given.places)}),
        **({} if given.uneven is None else {"mapping": mapping_to_json(given.uneven)}),
    }  # fmt: skip


def _claims_to_json(space: Space, claims: tuple[EvenClaim, ...]) -> list[JsonObject]:
    """Claims by the names of levels, tensors and dimensions."""
    source = space.source
    dims = [source.computation.dims[i] for i in space.dims]
    tensors = [t.name for t in source.computation.tensors]
    names = [v.name for v in source.architecture.levels]
    return [
        {
            "keep": {
                v: [t for t, k in zip(tensors, row, strict=True) if k] for v, row in zip(names, c.kept, strict=True)
            },
            "spatial": {
                v: {d: f for d, f in zip(dims, row, strict=True) if f > 1}
                for v, row in zip(names, c.vectors, strict=True)
                if math.prod(row) > 1
            },
            "bound": c.bound,
        }
        for c in claims
    ]


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
    claims = _claims_from_json(space, document["claims"])
    imperfect = _claims_from_json(space, document["imperfect"]) if "imperfect" in document else None
    if imperfect is not None:
        refuse_uncovered(space)
    places = _claims_from_json(space, document["places"]) if "places" in document else None
    if places is not None:
        refuse_places(space)
    uneven = None if places is None else mapping_from_json(document["mapping"])
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
    return EvenCertificate(space, nest, float(document["value"]), claims, shown, imperfect, places, uneven)


def _claims_from_json(space: Space, listed: list[dict[str, Any]]) -> tuple[EvenClaim, ...]:
    """What `_claims_to_json` wrote."""
    source = space.source
    dims = [source.computation.dims[i] for i in space.dims]
    names = [v.name for v in source.architecture.levels]
    return tuple(
        EvenClaim(
            tuple(tuple(t.name in c["keep"][v] for t in source.computation.tensors) for v in names),
            tuple(tuple(int(c["spatial"].get(v, {}).get(d, 1)) for d in dims) for v in names),
            float(c["bound"]),
        )
        for c in listed
    )
