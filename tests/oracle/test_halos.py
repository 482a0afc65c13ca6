"""Windows under shared loops: rows of halo tilings beside a walk on numbers, optima beside all pairs of nests (H1-H6)."""

import itertools
import math
import random
from collections.abc import Iterator

import pytest

from codesign.mapping.looptree import Goal, Machine, Memory, Operand, Operator
from codesign.scheduling.fused.halos import HaloTiling, Link, Run, behind, rows_of, tilings
from codesign.scheduling.fused.network_operators import FusedGraph
from codesign.scheduling.fused.scheduler import best_with_halos
from experiments.attacks.fused_pairs import ways
from experiments.attacks.uneven_nests import axes

# ---------------------------------------------------------------- rows, on numbers


def convolved(rows: list[float], weights: list[float], stride: int, top: int, made: int) -> list[float]:
    """A convolution whose first row begins `top` rows above; what is outside is zero."""
    inside = dict(enumerate(rows))
    return [sum(w * inside.get(i * stride - top + j, 0.0) for j, w in enumerate(weights)) for i in range(made)]


def walk(
    tiling: HaloTiling, count: int, tops: list[int], windows: list[list[float]], source: list[float]
) -> list[float]:
    """The last operator's rows, made step by step; fails where a row is missing or more are held than was set aside."""
    links = tiling.run.links
    made = list(reversed(rows_of(tiling, count)))
    late = [0] * (len(links) + 1)  # steps behind the first operator
    for i, (link, kept) in enumerate(zip(links, tiling.kept, strict=True)):
        after = made[i + 1]
        need = min((after.made - 1) * link.stride + link.span, link.rows)
        moved = link.stride * after.advance
        late[i + 1] = late[i] + (behind(link, tiling.steps, need, moved, made[i].made) if kept else 0)

    def tile(i: int, step: int) -> tuple[int, int]:
        """Rows of an operator in a step: its share where they are kept, else what its reader's rows need."""
        rows = links[i].rows if i < len(links) else count
        if i == len(links) or tiling.kept[i]:
            return step * made[i].made, min((step + 1) * made[i].made, rows)
        low, high = tile(i + 1, step)
        stride, top = links[i].stride, tops[i]
        return max(low * stride - top, 0), min((high - 1) * stride - top + links[i].span, rows)

    held: list[dict[int, float]] = [dict(enumerate(source)), *({} for _ in links)]
    result: dict[int, float] = {}
    for turn in range(tiling.steps + late[-1]):
        for i, own in enumerate(made):
            step = turn - late[i]
            if not 0 <= step < tiling.steps:
                continue
            stride, top = (links[i - 1].stride, tops[i - 1]) if i else (1, 0)
            into = held[i + 1] if i < len(links) else result
            if i < len(links) and not tiling.kept[i]:
                into.clear()  # a tile of its own every step
            wanted = range(*tile(i, step))
            assert len(wanted) <= own.made
            for row in wanted:
                place = [row * stride - top + j for j in range(len(windows[i]))]
                limit = links[i - 1].rows if i else len(source)
                assert all(p in held[i] for p in place if 0 <= p < limit), f"row {row} of operator {i} reads too early"
                into[row] = sum(w * held[i][p] for w, p in zip(windows[i], place, strict=True) if 0 <= p < limit)
            if i < len(links) and tiling.kept[i]:
                assert len(into) <= own.made + own.aside, "more rows wait than were set aside"
            if i and tiling.kept[i - 1]:
                writer = made[i - 1]
                first = tile(i, step + 1)[0] * stride - top
                held[i] = {row: v for row, v in held[i].items() if row >= first}
                assert len(held[i]) <= writer.aside, "more rows stay than were set aside"
    return [result[i] for i in range(count)]


@pytest.mark.parametrize("seed", range(40))
def test_every_row_is_there_when_it_is_read_and_the_rows_set_aside_suffice(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([4, 6, 8, 12])
    spans = [rng.choice([1, 2, 3, 5]) for _ in range(rng.choice([1, 2, 3]))]
    links: list[Link] = []
    tops: list[int] = []
    rows = count
    for span in spans:
        stride = rng.choice([1, 2])
        padding = rng.randint(0, span - 1)
        padding = min(padding, (rows - 1) * stride + span - 1)
        rows = (rows - 1) * stride + span - padding
        tops.insert(0, rng.randint(0, padding))
        links.insert(0, Link("T", "p", "p", "p", stride, span, rows, padding))
    numbers = [rng.random() for _ in range(rows)]
    windows = [[rng.random()], *([rng.random() for _ in range(x.span)] for x in links)]
    expected = convolved(numbers, windows[0], 1, 0, rows)
    for link, top, window, made in zip(links, tops, windows[1:], [*(x.rows for x in links[1:]), count], strict=True):
        expected = convolved(expected, window, link.stride, top, made)
    for steps in (s for s in range(1, count + 1) if count % s == 0):
        for kept in itertools.product((False, True), repeat=len(links)):
            tiling = HaloTiling(Run(0, tuple(links), "p"), steps, kept)
            assert walk(tiling, count, tops, windows, numbers) == pytest.approx(expected)


# ---------------------------------------------------------------- optima, on all pairs of nests


def conv_chain(rows: int, span: int, stride: int, channels: int, rest: int) -> tuple[Operator, Operator]:
    """``T[k,p] = A[p] B[k]``, ``Z[q] = T[k, stride q + s] C[k,s]``; `rest` rows of T are padding."""
    writer = (
        Operand("A", axes("p"), bits=1, ranks=("P",)),
        Operand("B", axes("k"), bits=1, ranks=("K",)),
        Operand("T", axes("k,p"), True, 1, ("K", "P")),
    )
    reader = (
        Operand("T", (((("k", 1),)), (("q", stride), ("s", 1))), bits=1, ranks=("K", "P")),
        Operand("C", axes("k,s"), bits=1, ranks=("K", "S")),
        Operand("Z", axes("q"), True, 1, ("Q",)),
    )
    made = (rows - 1) * stride + span - rest
    return (
        Operator("writer", writer, {"p": made, "k": channels}),
        Operator("reader", reader, {"q": rows, "k": channels, "s": span}),
    )


def stepwise(
    rows: int, span: int, stride: int, channels: int, rest: int, steps: int, kept: bool
) -> tuple[tuple[Operator, Operator], float]:
    """The chain in steps, written out by hand, and bits set aside."""
    total = (rows - 1) * stride + span - rest
    inside = rows // steps
    need = min((inside - 1) * stride + span, total)
    made, move = (-(-total // steps), -(-total // steps)) if kept else (need, inside * stride)
    writer = (
        Operand("A", ((("step", move), ("p", 1)),), bits=1),
        Operand("B", axes("k"), bits=1),
        Operand("T", axes("k,step,p"), True, 1),
    )
    reader = (
        Operand("T", ((("k", 1),), (("step", 1),), (("q", stride), ("s", 1))), bits=1),
        Operand("C", axes("k,s"), bits=1),
        Operand("Z", axes("step,q"), True, 1),
    )
    aside = 0
    if kept:  # the least shift of the reader, then the most rows at any time
        shift = 0
        while any(min(t * inside * stride + need, total) > (t + shift + 1) * made for t in range(steps)):
            shift += 1
        for t in range(steps):
            top = max((steps - 1) * inside * stride + need - total, 0)
            ready = min((t + shift + 1) * made, total)
            aside = max(aside, ready - max(t * inside * stride - top, 0) - made, need - made)
            aside = max(aside, ready - max((t + 1) * inside * stride - top, 0))
    operators = (
        Operator("writer", writer, {"step": steps, "p": made, "k": channels}),
        Operator("reader", reader, {"step": steps, "q": inside, "k": channels, "s": span}),
    )
    return operators, float(aside * channels)


def pairs(
    operators: tuple[Operator, Operator], machine: Machine, goal: Goal, aside: float, single: bool
) -> Iterator[float]:
    """Objectives of all pairs of nests that fit, T outside or on the chip."""
    room = machine.memories[1].capacity - aside
    alone = [
        {
            (e, s)
            for w in ways(o, machine, tuple(t.name for t in o.operands), False).values()
            for _, i, e, s in w
            if i <= room
        }
        for o in operators
    ]
    yield from (goal.of(e1 + e2, s1 + s2, 0.0) for (e1, s1), (e2, s2) in itertools.product(*alone))
    chip = [ways(o, machine, tuple(t.name for t in o.operands), True) for o in operators]
    out = operators[0].operands[2]
    for shared, first in chip[0].items():
        if single and any(dim == "step" and tile > 1 for dim, tile in shared):
            continue
        between = out.words({**operators[0].bounds, **dict(shared)})
        for (w1, i1, e1, s1), (w2, i2, e2, s2) in itertools.product(first, chip[1].get(shared, ())):
            if sum(w1) + sum(w2) + between + max(i1, i2) <= room:
                yield goal.of(e1 + e2, s1 + s2, 0.0)


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(i, marks=pytest.mark.slow("oracle")) for i in range(2, 16))]
)
def test_the_best_with_halos_is_that_of_all_pairs_of_nests_in_all_steps(seed: int) -> None:
    rng = random.Random(seed)
    rows, span, stride = 4, rng.choice([2, 3]), rng.choice([1, 1, 2])
    shape = rows, span, stride, rng.choice([1, 2]), rng.choice([0, span - 1])
    plain = conv_chain(*shape)
    memories = (
        Memory("outer", math.inf, rng.uniform(3, 9), rng.uniform(3, 9), ((0.2, 0.2),)),
        Memory("inner", float(rng.randint(6, 16)), rng.uniform(0.1, 1), rng.uniform(0.1, 1), ((0.05, 0.05),)),
    )
    names = [frozenset(t.name for t in o.operands) for o in plain]
    machines = [Machine(memories, ((), (), ()), 0.1, 0.5, 0.0, ((n, n), (n - {"T"}, n))) for n in names]
    graph = FusedGraph("chain", plain, tuple((m,) for m in machines), frozenset({"T"}), 0, 0, memories[1].capacity)
    assert {(t.steps, t.kept) for t in tilings(graph) if t.run.last_dim == "q"} == set(
        itertools.product((2, 4), ((False,), (True,)) if span > stride else ((False,),))
    )
    goal = rng.choice(list(Goal))
    values = [min(pairs(plain, machines[0], goal, 0.0, False), default=math.inf)]
    for steps, kept in itertools.product((2, 4), (False, True) if span > stride else (False,)):
        operators, aside = stepwise(*shape, steps, kept)
        values.append(min(pairs(operators, machines[0], goal, aside, kept), default=math.inf))
    found = best_with_halos(graph, goal)
    assert found.schedule.value == pytest.approx(min(values), rel=1e-9)
    assert found.schedule.proven
    if math.isfinite(min(values)):
        cost = found.schedule.cost()
        assert goal.of(cost.energy, cost.seconds, 0.0) == pytest.approx(found.schedule.value, rel=1e-9)
