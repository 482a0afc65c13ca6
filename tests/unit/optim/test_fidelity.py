import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.optim.fidelity import Proposal, TwoFidelityOptimizer
from codesign.optim.pareto import nondominated
from codesign.optim.protocols import Problem
from spaces import Integer, Ordinal, Space

SPACE = Space([Ordinal("rows", [4, 8, 16, 32]), Ordinal("cols", [4, 8, 16, 32]), Integer("banks", 1, 8)])


def high(point: dict[str, int]) -> dict[str, float]:
    pes = point["rows"] * point["cols"]
    return {"latency": max(1e4 / pes, 90.0 / point["banks"]) + point["cols"] % 3, "area": pes + 9.0 * point["banks"]}


def low(point: dict[str, int]) -> dict[str, float]:
    return {name: 0.6 * value**1.1 for name, value in high(point).items()}


def drive(ratio: float, steps: int = 24) -> tuple[list[Proposal], TwoFidelityOptimizer]:
    optimizer = TwoFidelityOptimizer(Problem(SPACE, ("latency", "area")), low_cost=ratio, high_cost=1.0)
    proposals = []
    for _ in range(steps):
        proposal = optimizer.ask()
        optimizer.tell(proposal, high(proposal.point) if proposal.high else low(proposal.point))
        proposals.append(proposal)
    return proposals, optimizer


def test_the_price_of_one_high_fidelity_evaluation_goes_into_low_fidelity_ones_first() -> None:
    proposals, optimizer = drive(0.1)
    assert [p.high for p in proposals[:11]] == [False] * 10 + [True]
    assert all(entry.values == pytest.approx(high(entry.point)) for entry in optimizer.front())


def test_the_best_of_the_low_fidelity_study_are_evaluated_in_high_fidelity_first() -> None:
    proposals, _ = drive(0.1, steps=13)
    known = {tuple(p.point.values()): low(p.point) for p in proposals[:10]}
    values = np.array([[v["latency"], v["area"]] for v in known.values()])
    best = {point for point, good in zip(known, nondominated(values), strict=True) if good}
    tried = [tuple(p.point.values()) for p in proposals if p.high]
    assert len(tried) == 3
    assert set(tried) <= best


def test_later_low_fidelity_evaluations_cost_a_tenth_of_the_others_at_most() -> None:
    proposals, _ = drive(0.1, steps=30)
    high_count = sum(p.high for p in proposals)
    assert high_count >= 10
    assert len(proposals) - high_count <= 10 + high_count


def test_low_fidelity_evaluations_that_cost_almost_as_much_are_not_made() -> None:
    proposals, _ = drive(0.4, steps=6)
    assert all(p.high for p in proposals)


def test_the_same_answers_give_the_same_proposals() -> None:
    assert drive(0.2, steps=10)[0] == drive(0.2, steps=10)[0]


def test_costs_must_be_in_order() -> None:
    with pytest.raises(UserError, match="expected 0 < low cost < high cost, got 2 and 1"):
        TwoFidelityOptimizer(Problem(SPACE, ("latency",)), low_cost=2, high_cost=1)
