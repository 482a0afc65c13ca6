"""The cost of a found nest, counted node by node, is that of the search; broken nests are refused with the rule they break."""

import dataclasses
import math

import pytest

from codesign.core.errors import UserError
from codesign.cost.looptree import Loop, Store, evaluate
from codesign.mappers.uneven.nest import nest_of
from codesign.mappers.uneven.search import solve
from codesign.mapping.looptree import Factors, Goal, Machine, Memory, Operand, Operator


def convolution() -> Operator:
    """A convolution with sliding windows."""
    axes = {"I": ["p+r", "q+s", "c"], "F": ["r", "s", "c", "k"], "O": ["p", "q", "k"]}
    operands = tuple(
        Operand(t, tuple(tuple((d, 1) for d in a.split("+")) for a in parts), t == "O", 8) for t, parts in axes.items()
    )
    return Operator("conv", operands, {"p": 7, "q": 6, "c": 5, "k": 11, "r": 3, "s": 3})


def machine(capacity: float) -> Machine:
    """Two levels that keep everything."""
    all_ = frozenset("IFO")
    return Machine(
        (Memory("outer", math.inf, 8, 9, ((1.0, 1.0),)), Memory("inner", capacity, 0.5, 0.6, ((0.1, 0.1),))),
        ((), (), ()),
        0.2,
        1.0,
        0.0,
        ((all_, all_),),
    )


@pytest.mark.parametrize("goal", list(Goal))
@pytest.mark.parametrize("imperfect", [False, True])
def test_nest_costs_what_the_search_says(goal: Goal, imperfect: bool) -> None:
    operator, target = convolution(), machine(700.0)
    found = solve(operator, target, goal, Factors(imperfect, imperfect))
    assert found.case is not None
    assert found.proven
    cost = evaluate(operator, target, nest_of(found.case, found.placed))
    assert cost.value(goal, 0.0) == pytest.approx(found.value, rel=1e-12)
    assert cost.energy == pytest.approx(found.energy, rel=1e-12)
    assert cost.seconds == pytest.approx(found.seconds, rel=1e-12)
    assert cost.held[1] <= 700.0


def test_imperfect_is_never_worse() -> None:
    operator = convolution()
    for capacity in (300.0, 900.0):
        perfect = solve(operator, machine(capacity), Goal.ENERGY).value
        assert solve(operator, machine(capacity), Goal.ENERGY, Factors(True, True)).value <= perfect


def test_nothing_fits() -> None:
    found = solve(convolution(), machine(16.0), Goal.ENERGY)
    assert math.isinf(found.value)
    assert found.case is None


def test_broken_nests_name_the_rule() -> None:
    operator, target = convolution(), machine(1e9)
    found = solve(operator, target, Goal.ENERGY)
    assert found.case is not None
    nest = nest_of(found.case, found.placed)
    loop = next(i for i, x in enumerate(nest) if isinstance(x, Loop))
    with pytest.raises(UserError, match="do not cover the operator"):
        evaluate(operator, target, (*nest[:loop], *(x for x in nest[loop + 1 :] if not isinstance(x, Loop))))
    store = next(i for i, x in enumerate(nest) if isinstance(x, Store))
    with pytest.raises(UserError, match="keeps tensors where the machine does not"):
        evaluate(operator, target, (*nest[:store], *nest[store + 1 :]))
    with pytest.raises(UserError, match=r"holds .* bits, its capacity is"):
        evaluate(operator, dataclasses.replace(target, memories=(target.memories[0], Memory("inner", 8.0))), nest)
