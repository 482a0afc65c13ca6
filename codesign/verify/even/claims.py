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
LISTS = ("claims", "imperfect", "places")
"""Keys of a document under which claims stand: of perfect factors, of imperfect ones, of uneven mappings."""

Profiles = Iterator[tuple[Kept, list[tuple[Vector, ...]]]]
"""By keep set, profiles that need a claim."""

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
    def lists(self) -> dict[str, tuple[EvenClaim, ...]]:
        """The lists of claims that there are, by key."""
        return {key: found for key in LISTS if (found := getattr(self, key)) is not None}

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


def open_profiles(space: Space, value: float) -> Profiles:
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
        given = EvenCertificate(space, (), value, (), shown, None, (), mapping)
    else:
        nest = levels_of(mapping, problem.architecture)
        given = EvenCertificate(space, nest, value, (), shown, () if problem.imperfect else None)
    return with_claims(given)


def with_claims(given: EvenCertificate) -> EvenCertificate:
    """The certificate with a claim for every profile that needs one."""
    lists: dict[str, tuple[EvenClaim, ...]] = {
        key: tuple(EvenClaim(kept, vectors, given.bound) for kept, found in profiles for vectors in found)
        for key, profiles in open_by_list(given)
    }
    return replace(
        given,
        claims=lists.get("claims", given.claims),
        imperfect=lists.get("imperfect", given.imperfect),
        places=lists.get("places", given.places),
    )


def open_by_list(given: EvenCertificate) -> Iterator[tuple[str, Profiles]]:
    """By list of a certificate the profiles that need a claim there (rules K5 and J6)."""
    if given.perfect_apart:
        yield "claims", open_profiles(given.space, given.bound)
    if given.places is not None:
        yield "places", open_profiles(given.space, given.bound)
    if given.imperfect is not None:
        limit = given.bound * (1.0 - SAME)
        yield "imperfect", ((kept, open_imperfect(given.space, kept, limit)) for kept in given.space.keep_sets())


def place_bound(space: Space, wanted: float) -> float:
    """The most, up to `wanted`, that the rules UK show that no uneven mapping is below."""
    found = wanted
    for kept, profiles in open_profiles(space, wanted):
        bounds = PlaceBounds(space, kept)
        for vectors in profiles:
            found = min(found, bounds.least(vectors, found, math.inf))
    return found


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
        **{key: _claims_to_json(given.space, found) for key, found in given.lists.items()},
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
    lists = {key: _claims_from_json(space, document[key]) for key in LISTS if key in document}
    if "imperfect" in lists:
        refuse_uncovered(space)
    if "places" in lists:
        refuse_places(space)
    uneven = mapping_from_json(document["mapping"]) if "places" in lists else None
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
    claims, imperfect, places = lists["claims"], lists.get("imperfect"), lists.get("places")
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
