"""Checks the certificate of an even mapping: nest, profiles, claims (docs/explanation/certificates.md)."""

import math
import time

from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible, evaluate
from codesign.mapping.mapping import Mapping
from codesign.verify.even.bounds import Bounded
from codesign.verify.even.claims import SAME, EvenCertificate, open_profiles
from codesign.verify.even.member import fault
from codesign.verify.even.problem import Kept, Space, Vector
from codesign.verify.even.profiles import exact
from codesign.verify.even.tiles import Program
from codesign.verify.verdict import Verdict

ROUNDING = 1e-12
"""Relative; values are made by the same kernel when a certificate is written and when it is checked."""


def verify_even(given: EvenCertificate, stop: float) -> Verdict:
    """Check everything the certificate says; `stop` in CPU seconds of the process."""
    reason = _nest_fault(given)
    if reason is not None:
        return Verdict(False, f"the nest: {reason}")
    claimed = {(c.kept, c.vectors): c.bound for c in given.claims}
    checked = walked = 0
    for kept, found in open_profiles(given.space, given.value):
        for vectors in found:
            bound = claimed.get((kept, vectors))
            if bound is None:
                return Verdict(False, f"no claim covers the spatial factors {_named(given.space, vectors)}")
            if bound < given.value * (1.0 - SAME):
                return Verdict(False, f"a claim says only {bound:.12g}, below the value {given.value:.12g}")
            if bound > given.value * (1.0 + ROUNDING):
                return Verdict(
                    False, f"a claim says {bound:.17g}, more than the value {given.value:.17g} that is checked"
                )
            if time.process_time() > stop:
                return Verdict(False, f"the time limit ended the check after {checked} claims that hold")
            try:
                walks = _holds(given, kept, vectors, stop)
            except TimeoutError:
                return Verdict(False, f"the time limit ended the check after {checked} claims that hold")
            if walks is None:
                return Verdict(
                    False,
                    f"a mapping below {given.value:.12g} exists with the spatial factors {_named(given.space, vectors)}",
                )
            checked, walked = checked + 1, walked + walks
    if not checked:
        return Verdict(True, "closed bounds rule out every profile; no claim is needed")
    how = f" ({walked} by walking nests)" if walked else ""
    return Verdict(
        True, f"{checked} claim{'s' if checked > 1 else ''} checked{how}; closed bounds rule out all other profiles"
    )


def _nest_fault(given: EvenCertificate) -> str | None:
    source = given.space.source
    try:
        reason = fault(given.space, given.nest)
        cost = evaluate(source.computation, source.architecture, Mapping.from_levels(given.nest))
    except (UserError, KeyError) as error:
        return str(error)
    except (OverflowError, MemoryError) as error:
        return f"it is too large to be scored: {error}"
    if reason is not None:
        return reason
    if isinstance(cost, Infeasible):
        return str(cost)
    value = given.space.objective.score(cost.energy_pj, cost.latency_cycles)
    if not math.isclose(value, given.value, rel_tol=ROUNDING):
        return f"it has the value {value:.12g}, the certificate says {given.value:.12g}"
    return None


def _holds(given: EvenCertificate, kept: Kept, vectors: tuple[Vector, ...], stop: float) -> bool | None:
    """Whether nests had to be walked to see that no mapping of the profile is better; None if one is.

    Raises:
        TimeoutError: CPU seconds ran out.
    """
    limit = given.value * (1.0 - SAME)
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
