"""The certificate of an optimum that the uneven search has proven."""

from codesign.core.errors import UserError
from codesign.mappers.uneven.levels import Case
from codesign.mappers.uneven.nest import nest_of
from codesign.mappers.uneven.profiles import profiles
from codesign.mappers.uneven.search import Found
from codesign.mappers.uneven.space import Space
from codesign.mapping.looptree import Factors, Goal, Machine, Operator
from codesign.verify.certificate import Certificate, Claim


def certify(operator: Operator, machine: Machine, goal: Goal, found: Found) -> Certificate:
    """A claim for every profile and keep set: its bound in closed form, or the optimum where that is higher.

    Raises:
        UserError: The mapping is not proven optimal.
    """
    if found.case is None or not found.proven:
        raise UserError("a certificate needs a proven optimum", hint="give a longer --time-limit")
    claims = []
    for profile in profiles(operator, machine, Factors()):
        space = Space(operator, machine, profile)
        spatial = tuple(tuple(vector for vector in vectors) for vectors in profile.along)
        claims += [Claim(spatial, keeps, max(Case(space, keeps).quick(goal), found.value)) for keeps in machine.keeps]
    return Certificate(operator, machine, goal, nest_of(found.case, found.placed), found.value, tuple(claims))
