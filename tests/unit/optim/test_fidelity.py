import pytest

from codesign.core.errors import UserError
from codesign.optim.fidelity import TwoFidelityOptimizer
from codesign.optim.protocols import Problem
from spaces import Integer, Ordinal, Space

SPACE = Space([Ordinal("rows", [4, 8, 16, 32]), Ordinal("cols", [4, 8, 16, 32]), Integer("banks", 1, 8)])


def dear(point: dict[str, int]) -> dict[str, float]:
    pes = point["rows"] * point["cols"]
    return {"latency": max(1e4 / pes, 90.0 / point["banks"]) + point["cols"] % 3, "area": pes + 9.0 * point["banks"]}


def cheap(point: dict[str, int]) -> dict[str, float]:
    return {name: 0.6 * value**1.1 for name, value in dear(point).items()}


def drive(ratio: float, steps: int = 24) -> tuple[int, int, TwoFidelityOptimizer]:
    optimizer = TwoFidelityOptimizer(Problem(SPACE, ("latency", "area")), cheap_cost=ratio, dear_cost=1.0)
    counts = [0, 0]
    for _ in range(steps):
        proposal = optimizer.ask()
        optimizer.tell(proposal, dear(proposal.point) if proposal.dear else cheap(proposal.point))
        counts[proposal.dear] += 1
    return counts[0], counts[1], optimizer


def test_cheap_evaluations_are_bought_while_they_pay() -> None:
    cheap_count, dear_count, optimizer = drive(0.01)
    assert cheap_count >= 3
    assert dear_count >= 8
    assert all(entry.values == pytest.approx(dear(entry.point)) for entry in optimizer.front())


def test_a_cheap_evaluation_that_costs_almost_as_much_is_bought_less_often() -> None:
    assert drive(0.99)[0] < drive(0.01)[0]


def test_costs_must_be_in_order() -> None:
    with pytest.raises(UserError, match="expected 0 < cheap cost < dear cost, got 2 and 1"):
        TwoFidelityOptimizer(Problem(SPACE, ("latency",)), cheap_cost=2, dear_cost=1)
