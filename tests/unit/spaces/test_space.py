import numpy as np
import pytest

from codesign.core.errors import UserError
from spaces import Categorical, Condition, Constraint, Integer, Ordinal, Space
from spaces.expressions import Expression

FLOW = Categorical("flow", ["ws", "os"])


def test_conditional_parameters_come_and_go() -> None:
    space = Space([FLOW, Integer("fifo", 1, 5, when=Condition("flow", ("ws",)))])
    assert len(space.enumerate()) == 6
    assert space.to_points(space.to_indices([{"flow": "os"}])) == [{"flow": "os"}]
    assert space.to_points(space.to_indices([{"flow": "os", "fifo": None}])) == [{"flow": "os"}]
    born = space.to_points(space.neighbours(space.to_indices([{"flow": "os"}])[0]))
    assert born == [{"flow": "ws", "fifo": 3}]  # a new parameter starts in the middle
    with pytest.raises(UserError, match="missing parameter 'fifo'"):
        space.to_indices([{"flow": "ws"}])


def test_violations_name_the_rule_and_its_reason() -> None:
    space = Space(
        [Integer("rows", 1, 8), FLOW], [Constraint("array", "rows <= 4 or flow == 'ws'", "os needs few rows")]
    )
    assert space.violations({"rows": 8, "flow": "os"}) == ["array: os needs few rows"]
    assert space.violations({"rows": 8, "flow": "ws"}) == []


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ("a + b == 5", 4),
        ("a < b <= 3", 3),
        ("not a > 1", 4),
        ("a in (1, 3)", 8),
        ("a not in [1, 3]", 8),
        ("max(a, b) - min(a, b) >= 3", 2),
        ("a ** 2 // b % 2 == 0", sum((a * a // b) % 2 == 0 for a in range(1, 5) for b in range(1, 5))),
        ("-a + abs(-b) > ceil(0.5) / 1", 3),
        ("log2(a) + log2(b) >= 3", 6),
        ("round(a / 2) + floor(b / 2) == int(a * b / 4) and sqrt(a) <= 1.5", 1),
        ("(a if b > 2 else 4 - a) >= 3", 6),
    ],
)
def test_expressions_mean_what_python_means(rule: str, count: int) -> None:
    space = Space([Integer("a", 1, 4), Integer("b", 1, 4)], [Constraint("rule", rule)])
    rows = space.enumerate()
    assert len(rows) == count
    points = Space(space.parameters).to_points(Space(space.parameters).enumerate())
    assert space.to_points(rows) == [p for p in points if Expression(rule).value(p)]


def test_absent_parameters_read_as_zero_in_rules() -> None:
    space = Space(
        [FLOW, Integer("fifo", 1, 3, when=Condition("flow", ("ws",)))], [Constraint("deep", "fifo == 0 or fifo > 2")]
    )
    assert len(space.enumerate()) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Space([]), "at least one parameter"),
        (lambda: Space([FLOW, FLOW]), "must differ, got 'flow' twice"),
        (lambda: Space(["flow"]), "expected a parameter such as Integer"),
        (lambda: Space([FLOW], [Constraint("c", "flwo == 'ws'")]), "did you mean 'flow'"),
        (lambda: Space([FLOW], [Constraint("c", "flow.upper() == 1")]), "expected a call of one of min"),
        (lambda: Space([FLOW], [Constraint("c", "[x for x in flow]")]), "expected arithmetic"),
        (lambda: Constraint("c", "flow =="), "not an expression"),
        (lambda: Constraint("c", 3), "expected an expression or a callable"),
        (lambda: Space([FLOW], [Constraint("c", "1"), Constraint("c", "1")]), "constraint names must differ"),
        (lambda: Space([Integer("n", 1, 2, when=Condition("flow", ("ws",))), FLOW]), "unknown parameter 'flow'"),
        (lambda: Space([FLOW, Integer("n", 1, 2, when=Condition("flow", ("rs",)))]), "got 'rs' (condition of 'n')"),
        (lambda: Space([FLOW], (), [{"flow": "rs"}]), "got 'rs'"),
        (lambda: Space([FLOW], [Constraint("c", "flow == 'ws'")], [{"flow": "os"}]), "preset 1 breaks a constraint: c"),
        (lambda: Space([FLOW]).to_indices([{"folw": "ws"}]), "did you mean 'flow'"),
        (lambda: Space([FLOW]).to_indices([3]), "expected a dict"),
        (lambda: Space.from_json({"parameters": [], "extra": 1}), "unknown field 'extra'"),
        (lambda: Space.from_json([]), "expected an object"),
        (lambda: Space([FLOW], [Constraint("c", "flow < 3")]).enumerate(), "cannot evaluate 'flow < 3'"),
    ],
)
def test_bad_spaces_are_refused(make: object, message: str) -> None:
    with pytest.raises(UserError) as caught:
        make()  # type: ignore[operator]
    assert message in str(caught.value)


def test_contradictory_constraints_are_named() -> None:
    space = Space([Integer("n", 1, 9)], [Constraint("few", "n < 4"), Constraint("many", "n > 5")])
    with pytest.raises(UserError, match="no valid design found: the constraints few, many leave nothing"):
        space.sample(1, np.random.default_rng(0))


def test_rare_designs_are_found() -> None:
    space = Space([Integer("a", 1, 1000), Integer("b", 1, 1000)], [Constraint("one", "a == 77 and b == 555")])
    assert space.to_points(space.sample(2, np.random.default_rng(0))) == [{"a": 77, "b": 555}] * 2


def test_a_space_too_large_to_enumerate_says_so() -> None:
    space = Space([Integer("a", 1, 10_000), Integer("b", 1, 10_000)])
    with pytest.raises(UserError, match="up to 100000000 designs, expected at most 2000000"):
        space.enumerate()
    assert len(space.sample(3, np.random.default_rng(0))) == 3


def test_neighbours_of_an_ordered_parameter_are_one_step_away() -> None:
    space = Space([Ordinal("rows", [4, 8, 16, 32])])
    assert space.to_points(space.neighbours(np.array([1]))) == [{"rows": 4}, {"rows": 16}]


def test_a_long_range_is_crossed_in_leaps() -> None:
    space = Space([Integer("n", 0, 399)])
    moved = [p["n"] for p in space.to_points(space.neighbours(np.array([100])))]
    assert sorted(moved) == [36, 92, 99, 101, 108, 164]


def test_rules_over_one_parameter_make_the_space_smaller() -> None:
    """3 x 2 of 9 x 4 index combinations are left to walk; rules over two parameters are checked on these."""
    parts = [Integer("n", 1, 9), Ordinal("m", [1, 2, 4, 8])]
    rules = [Constraint("few", "n < 4"), Constraint("some", "m in (2, 8)"), Constraint("both", "max(n, m) < 8")]
    space = Space(parts, rules)
    assert space.cardinality_bound == 6
    rows = space.enumerate(6)
    assert rows.tolist() == [[0, 1], [1, 1], [2, 1]]
    whole = Space(parts)
    assert rows.tolist() == [row.tolist() for row in whole.enumerate() if space.is_valid(row[None])[0]]
    assert Space(parts, [Constraint("none", "n > 9")]).enumerate().shape == (0, 2)
