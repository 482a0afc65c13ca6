"""Checks the certificate of a mapping, even or not, perfect factors or not: nest, profiles, claims (docs/explanation/certificates.md)."""

import math
import time
from collections.abc import Callable

from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible, evaluate
from codesign.verify.even.bounds import Bounded
from codesign.verify.even.claims import SAME, EvenCertificate, EvenClaim, Profiles, open_by_list
from codesign.verify.even.member import fault, place_fault
from codesign.verify.even.problem import Kept, Space, Vector
from codesign.verify.even.profiles import exact
from codesign.verify.even.tiles import Program
from codesign.verify.imperfect.imperfect_bounds import ImperfectBounds, below
from codesign.verify.places.place_program import PlaceBounds
from codesign.verify.verdict import Verdict

ROUNDING = 1e-12
"""Relative; values are made by the same kernel when a certificate is written and when it is checked."""

Holds = Callable[[Kept, tuple[Vector, ...]], bool | None]
"""Whether nests of a profile were walked to see that none is better; None if one may be."""


def verify_even(given: EvenCertificate, stop: float, at: str = "") -> Verdict:
    """Check everything the certificate says.

    Args:
        given: The certificate.
        stop: In CPU seconds of the process.
        at: Where it stands in a document, such as ``layers[2].``, for the places that a refusal names.
    """
    reason = _value_fault(given, at) or _nest_fault(given, at)
    if reason is not None:
        return Verdict(False, reason)
    checked = walked = 0
    wanted = dict(open_by_list(given))
    for key, claims in given.lists.items():
        holds = _test_of(given, key, stop)
        outcome = _check_claims(given, claims, f"{at}{key}", wanted.get(key, iter(())), holds)
        if isinstance(outcome, str):
            return Verdict(False, outcome)
        checked, walked = checked + len(claims), walked + outcome
    gap = "" if given.shown is None else f"; the value is at most {given.value / given.bound - 1.0:.3%} above the bound"
    return Verdict(True, _counted(checked, walked) + gap, checked, walked)


def _test_of(given: EvenCertificate, key: str, stop: float) -> Holds:
    """How the claims of a list are tested."""
    space, limit = given.space, given.bound * (1.0 - SAME)
    if key == "claims":
        return lambda k, v: _holds(given, k, v, stop)
    if key == "places":
        return lambda k, v: None if PlaceBounds(space, k).least(v, limit, stop) < limit else False
    bounds = {kept: ImperfectBounds(space, kept) for kept in space.keep_sets()}
    return lambda k, v: None if below(bounds[k], v, limit, stop) else False


def _check_claims(
    given: EvenCertificate,
    claims: tuple[EvenClaim, ...],
    at: str,
    profiles: Profiles,
    holds: Holds,
) -> int | str:
    """How many claims of a list needed walks, or what is wrong with it."""
    claimed = {(c.kept, c.vectors): (n, c.bound) for n, c in enumerate(claims)}
    used: set[int] = set()
    walked = 0
    for kept, found in profiles:
        for vectors in found:
            n, bound = claimed.get((kept, vectors), (-1, None))
            if bound is None:
                return f"no claim covers the spatial factors {_named(given.space, vectors)}"
            reason = _bound_fault(bound, given, f"{at}[{n}].bound")
            if reason is not None:
                return reason
            try:
                walks = holds(kept, vectors)
            except TimeoutError:
                return f"the time limit ended the check after {len(used)} claims that hold"
            if walks is None:
                factors = _named(given.space, vectors)
                which = "exists" if at.endswith("claims") else "is not ruled out"
                return f"a mapping below {given.bound:.12g} {which} with the spatial factors {factors}"
            used.add(n)
            walked += walks
    if len(used) < len(claims):
        spare = next(n for n in range(len(claims)) if n not in used)
        return f"`{at}[{spare}]` is of no profile that closed bounds leave, or stands twice"
    return walked


def _counted(checked: int, walked: int) -> str:
    if not checked:
        return "closed bounds rule out every profile; no claim is needed"
    how = f" ({walked} by walking nests)" if walked else ""
    return f"{checked} claim{'s' if checked > 1 else ''} checked{how}; closed bounds rule out all other profiles"


def _bound_fault(bound: float, given: EvenCertificate, place: str) -> str | None:
    """Why a claim's bound is not the one that is checked."""
    name = "value" if given.shown is None else "bound"
    if bound < given.bound * (1.0 - SAME):
        return f"`{place}`: a claim says only {bound:.12g}, below the {name} {given.bound:.12g}"
    if not math.isclose(bound, given.bound, rel_tol=ROUNDING):
        return f"`{place}`: a claim says {bound:.17g}, not the {name} {given.bound:.17g} that is checked"
    return None


def _value_fault(given: EvenCertificate, at: str) -> str | None:
    """What is wrong with value and bound in themselves; no number is as good as one that is none."""
    if not (math.isfinite(given.value) and given.value >= 0.0):
        return f"`{at}value` must be a finite number >= 0, got {given.value:g}"
    if given.shown is not None and not 0.0 < given.shown <= given.value:
        return f"`{at}shown` must be above 0 and at most the value {given.value:.12g}, got {given.shown:.12g}"
    return None


def _nest_fault(given: EvenCertificate, at: str) -> str | None:
    """Why the nest is none of the space, or has another value."""
    reason = _unfit(given)
    return None if reason is None else f"the nest: {reason}".replace("`value`", f"`{at}value`")


def _unfit(given: EvenCertificate) -> str | None:
    source = given.space.source
    try:
        imperfect = given.imperfect is not None
        even = given.uneven is None
        reason = (
            fault(given.space, given.nest, imperfect=imperfect) if even else place_fault(given.space, given.mapping)
        )
        cost = evaluate(source.computation, source.architecture, given.mapping, imperfect=imperfect)
    except (UserError, KeyError) as error:
        return str(error)
    except (OverflowError, MemoryError) as error:
        return f"it is too large to be scored: {error}"
    if reason is not None:
        return reason
    if isinstance(cost, Infeasible):
        return str(cost)
    value = given.space.objective.of(cost)
    if not math.isclose(value, given.value, rel_tol=ROUNDING):
        return f"it has the value {value:.12g}, the certificate says {given.value:.12g} in `value`"
    return None


def _holds(given: EvenCertificate, kept: Kept, vectors: tuple[Vector, ...], stop: float) -> bool | None:
    """Whether nests had to be walked to see that no mapping of the profile is better; None if one is.

    Raises:
        TimeoutError: CPU seconds ran out.
    """
    if time.process_time() > stop:
        raise TimeoutError
    limit = given.bound * (1.0 - SAME)
    walked = False
    for profile, diagonals in exact(given.space, kept, vectors):
        program = Program(profile, diagonals)
        if not program.starts:
            continue
        bounded = Bounded(program, given.space.objective)
        if bounded.least(limit) >= limit:
            continue
        walked = True
        if bounded.below(limit, stop) is not None:
            return None
    return walked


def _named(space: Space, vectors: tuple[Vector, ...]) -> dict[str, dict[str, int]]:
    names = space.source.computation.dims
    return {
        level.name: {names[i]: f for i, f in zip(space.dims, row, strict=True) if f > 1}
        for level, row in zip(space.source.architecture.levels, vectors, strict=True)
        if math.prod(row) > 1
    }
