import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.optim.fidelity import Proposal, TwoFidelityOptimizer
from codesign.optim.pareto import nondominated
from codesign.optim.protocols import Problem
from spaces import Integer, Ordinal, Space

SPACE = Space([Ordinal("rows", [4, 8, 16, 32]), Ordinal("cols", [4, 8, 16, 32]), Integer("banks", 1, 8)])


def dear(point: dict[str, int]) -> dict[str, float]:
    pes = point["rows"] * point["cols"]
    return {"latency": max(1e4 / pes, 90.0 / point["banks"]) + point["cols"] % 3, "area": pes + 9.0 * point["banks"]}


def cheap(point: dict[str, int]) -> dict[str, float]:
    return {name: 0.6 * value**1.1 for name, value in dear(point).items()}


def drive(ratio: float, steps: int = 24) -> tuple[list[Proposal], TwoFidelityOptimizer]:
    optimizer = TwoFidelityOptimizer(Problem(SPACE, ("latency", "area")), cheap_cost=ratio, dear_cost=1.0)
    proposals = []
    for _ in range(steps):
        proposal = optimizer.ask()
        optimizer.tell(proposal, dear(proposal.point) if proposal.dear else cheap(proposal.point))
        proposals.append(proposal)
    return proposals, optimizer


def test_the_price_of_one_dear_evaluation_goes_into_cheap_ones_first() -> None:
    proposals, optimizer = drive(0.1)
    assert [p.dear for p in proposals[:11]] == [False] * 10 + [True]
    assert all(entry.values == pytest.approx(dear(entry.point)) for entry in optimizer.front())


def test_the_best_of_the_cheap_study_are_evaluated_dearly_first() -> None:
    proposals, _ = drive(0.1, steps=13)
    known = {tuple(p.point.values()): cheap(p.point) for p in proposals[:10]}
    values = np.array([[v["latency"], v["area"]] for v in known.values()])
    best = {point for point, good in zip(known, nondominated(values), strict=True) if good}
    tried = [tuple(p.point.values()) for p in proposals if p.dear]
    assert len(tried) == 3
    assert set(tried) <= best


def test_later_cheap_evaluations_cost_a_tenth_of_the_dear_ones_at_most() -> None:
    proposals, _ = drive(0.1, steps=30)
    dear_count = sum(p.dear for p in proposals)
    assert dear_count >= 10
    assert len(proposals) - dear_count <= 10 + dear_count


def test_cheap_evaluations_that_cost_almost_as_much_are_not_made() -> None:
    proposals, _ = drive(0.4, steps=6)
    assert all(p.dear for p in proposals)


def test_the_same_answers_give_the_same_proposals() -> None:
    assert drive(0.2, steps=10)[0] == drive(0.2, steps=10)[0]


def test_costs_must_be_in_order() -> None:
    with pytest.raises(UserError, match="expected 0 < cheap cost < dear cost, got 2 and 1"):
        TwoFidelityOptimizer(Problem(SPACE, ("latency",)), cheap_cost=2, dear_cost=1)
