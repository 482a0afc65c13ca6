"""Windows under shared loops: halos computed again, or kept (docs/explanation/exact-mapper.md).

A run of operators is cut into equal steps along one axis. The operators are rewritten so that the step is a dimension of its own; the
search then treats it like any other, and what it finds is counted like any other schedule.

* H1, Runs: Each operator but the last is read by the next alone, through a window along one axis. The axis ends in
  one dimension of the last.
* H2, Steps: That axis is cut into equal steps, every divisor; the step is a dimension of all operators of the run.
* H3, Computed again: With stride s and R rows of window, t rows of the reader need (t - 1) s + R of the writer.
* H4, Kept: The writer makes each row once; the reader runs as many steps behind as its window asks, and the rows that
  wait are set aside in the shared level.
* H5, Counting: The run is rewritten into operators with the step as a dimension.
* H6, Search: At most one run is cut. Every run, number of steps and choice for each halo is a case (corollary 4), so
  work grows with the square of the chain's length. Of cuts that are mirror images one is searched (`cut_search.py`).
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from codesign.core.factors import divisors
from codesign.mapping.looptree import Machine, Operator
from codesign.scheduling.fused.machines import SHARED
from codesign.scheduling.fused.network_operators import FusedGraph

STEP = "step"


@dataclass(frozen=True)
class Link:
    """How an operator of a run reads the one before it along the axis that is cut.

    Args:
        tensor: What is read.
        rank: Name of the axis.
        wrote, reads: The dimension that indexes it in the writer and in the reader.
        stride: Of the reader's window.
        span: Rows that one row of the reader needs.
        rows: That the writer makes.
        padding: Rows beyond them that the reader's windows reach, above and below together.
    """

    tensor: str
    rank: str
    wrote: str
    reads: str
    stride: int
    span: int
    rows: int
    padding: int


@dataclass(frozen=True)
class Run:
    """Operators first, first + 1, ... that read each other along one axis; `last_dim` indexes it in the last one."""

    first: int
    links: tuple[Link, ...]
    last_dim: str

    @property
    def last(self) -> int:
        """The last operator of the run."""
        return self.first + len(self.links)


@dataclass(frozen=True)
class HaloTiling:
    """A run cut into steps.

    Args:
        run: The run.
        steps: Steps.
        kept: For each link whether the halo is kept, not computed again.
    """

    run: Run
    steps: int
    kept: tuple[bool, ...]

    def text(self, graph: FusedGraph) -> str:
        """As a line for people."""
        names = [o.name for o in graph.operators[self.run.first : self.run.last + 1]]
        halos = [
            f"{link.tensor} {'kept' if kept else 'computed again'}"
            for link, kept in zip(self.run.links, self.kept, strict=True)
            if link.span > link.stride
        ]
        return f"{' '.join(names)} in {self.steps} steps along {self.run.last_dim}; halos: {', '.join(halos)}"


@dataclass(frozen=True)
class Rows:
    """What an operator of a run makes (H3, H4).

    Args:
        made: Rows in a step.
        advance: Rows from the first of one step to the first of the next.
        aside: Rows of its result that are set aside.
        early: Rows by which a step may begin above its place, as padding lies.
    """

    made: int
    advance: int
    aside: int = 0
    early: int = 0


def runs(graph: FusedGraph) -> Iterator[Run]:
    """Runs with at least one window: each result but the last is read by the next operator alone (H1)."""
    operators = graph.operators
    for last, operator in enumerate(operators):
        for dim in operator.bounds:
            links: tuple[Link, ...] = ()
            at, own = last, dim
            while at > 0 and (link := _link(graph, at - 1, at, own)) is not None:
                links = (link, *links)
                at, own = at - 1, link.wrote
                if any((x.span, x.stride) != (1, 1) for x in links):
                    yield Run(at, links, dim)


def _link(graph: FusedGraph, writer: int, reader: int, dim: str) -> Link | None:
    made, user = graph.operators[writer], graph.operators[reader]
    out = next(t for t in made.operands if t.output)
    users = [o for o in graph.operators if o is not made and any(t.tensor == out.name for t in o.operands)]
    if out.name not in graph.between or users != [user] or made.copy or user.copy:
        return None
    (read,) = (t for t in user.operands if t.tensor == out.name)
    result = next(t for t in user.operands if t.output)
    if ((dim, 1),) not in result.axes or any(t.of for t in (*made.operands, *user.operands)):
        return None
    for rank, axis in zip(read.ranks, read.axes, strict=True):
        terms = dict(axis)
        if dim not in terms or rank not in out.ranks:
            continue
        own = out.axes[out.ranks.index(rank)]
        if len(own) != 1 or own[0][1] != 1:
            return None
        span = 1 + sum(c * (user.bounds[d] - 1) for d, c in axis if d != dim)
        rows = made.bounds[own[0][0]]
        padding = max((user.bounds[dim] - 1) * terms[dim] + span - rows, 0)
        return Link(out.name, rank, own[0][0], dim, terms[dim], span, rows, padding)
    return None


def tilings(graph: FusedGraph) -> Iterator[HaloTiling]:
    """Every run in every number of steps that divides its last axis, every halo kept or computed again (H2)."""
    for run in runs(graph):
        for steps in divisors(graph.operators[run.last].bounds[run.last_dim])[1:]:
            choices = [(False, True) if x.span > x.stride else (False,) for x in run.links]
            yield from (HaloTiling(run, steps, kept) for kept in itertools.product(*choices))


def distinct_tilings(graph: FusedGraph) -> Iterator[HaloTiling]:
    """The same without those that are mirror images of others: a graph that stays as it is with two axes exchanged is cut along one."""
    seen: dict[tuple[int, int], list[Run]] = {}
    skipped: set[Run] = set()
    for run in runs(graph):
        alike = seen.setdefault((run.first, run.last), [])
        if any(_mirrored(graph, run, other) for other in alike):
            skipped.add(run)
        alike.append(run)
    yield from (tiling for tiling in tilings(graph) if tiling.run not in skipped)


def _mirrored(graph: FusedGraph, one: Run, other: Run) -> bool:
    """Whether the whole graph stays as it is when the axes of two runs are exchanged."""
    pairs = {(a.rank, b.rank) for a, b in zip(one.links, other.links, strict=True)}
    if len(pairs) != 1 or one.last_dim == other.last_dim:
        return False
    (ranks,) = pairs
    swaps = [_swap(operator, ranks) for operator in graph.operators]
    last = swaps[one.last]
    if last is None or last.get(one.last_dim) != other.last_dim:
        return False
    return all(
        swap is not None and _stays(operator, swap, ranks, graph.between) and _fits(machines, swap)
        for operator, swap, machines in zip(graph.operators, swaps, graph.machines, strict=True)
    )


def _swap(operator: Operator, ranks: tuple[str, str]) -> dict[str, str] | None:
    """The dimensions that change places when the two axes do; None where they do not pair."""
    found: dict[str, str] = {}
    for operand in operator.operands:
        if not set(ranks) <= set(operand.ranks):
            continue
        one, other = (operand.axes[operand.ranks.index(r)] for r in ranks)
        if len(one) != len(other):
            return None
        for (a, step), (b, same) in zip(one, other, strict=True):
            if step != same or operator.bounds[a] != operator.bounds[b]:
                return None
            if found.setdefault(a, b) != b or found.setdefault(b, a) != a:
                return None
    return found


def _stays(operator: Operator, swap: Mapping[str, str], ranks: tuple[str, str], between: frozenset[str]) -> bool:
    """Whether every operand has the same axes after the exchange, an intermediate's other axes each in its place."""
    exchanged = {ranks[0]: ranks[1], ranks[1]: ranks[0]}
    for operand in operator.operands:
        moved = [_axis(axis, swap) for axis in operand.axes]
        if operand.name not in between:
            if sorted(moved) != sorted(_axis(axis, {}) for axis in operand.axes):
                return False
            continue
        both = set(ranks) <= set(operand.ranks)
        if len(operand.ranks) != len(operand.axes) or len(set(operand.ranks)) != len(operand.ranks):
            return False
        place = {rank: i for i, rank in enumerate(operand.ranks)}
        for rank, axis in zip(operand.ranks, moved, strict=True):
            if axis != _axis(operand.axes[place[exchanged.get(rank, rank) if both else rank]], {}):
                return False
    return True


def _axis(axis: Sequence[tuple[str, int]], swap: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((swap.get(dim, dim), step) for dim, step in axis))


def _fits(machines: Sequence[Machine], swap: Mapping[str, str]) -> bool:
    """Whether the fan-outs take the exchanged dimensions alike."""
    fanouts = [f for machine in machines for axes in machine.fanouts for f in axes]
    return all(frozenset(swap.get(d, d) for d in f.dims) == f.dims for f in fanouts)


def rows_of(tiling: HaloTiling, bound: int) -> list[Rows]:
    """Rows of every operator of the run, the last first (H3, H4).

    Args:
        tiling: The run in steps.
        bound: Rows of the last operator.
    """
    found = [Rows(bound // tiling.steps, bound // tiling.steps)]
    for link, kept in zip(reversed(tiling.run.links), reversed(tiling.kept), strict=True):
        reader = found[-1]
        need = min((reader.made - 1) * link.stride + link.span, link.rows)
        move = link.stride * reader.advance
        early = link.padding + link.stride * reader.early
        if not kept:
            found.append(Rows(need, move, early=early))
            continue
        made = -(-link.rows // tiling.steps)
        found.append(Rows(made, made, _aside(link, tiling.steps, need, move, made, early)))
    return found


def _aside(link: Link, steps: int, need: int, move: int, made: int, early: int) -> int:
    """Rows that wait besides those of a step: the reader runs as many steps behind as its window asks for, wherever the padding lies (H4)."""
    late = behind(link, steps, need, move, made)
    ready = [min((t + late + 1) * made, link.rows) for t in range(steps)]
    first = [max(t * move - early, 0) for t in range(steps + 1)]
    reading = max(max(a - b for a, b in zip(ready, first[:-1], strict=True)), need)
    between = max(a - b for a, b in zip(ready, first[1:], strict=True))
    return max(reading - made, between, 0)


def behind(link: Link, steps: int, need: int, move: int, made: int) -> int:
    """Steps by which the reader of a kept halo runs behind the writer, wherever the padding lies."""
    return max(-(-min(t * move + need, link.rows) // made) - 1 - t for t in range(steps))


def single_steps(tiling: HaloTiling) -> frozenset[str]:
    """Dimensions whose shared loops take one step at a time, so that a kept halo passes from one to the next (H4)."""
    if not any(tiling.kept):
        return frozenset()
    return frozenset(f"{dim}.{STEP}" for dim in (tiling.run.last_dim, *(x.wrote for x in tiling.run.links)))


def tiled(graph: FusedGraph, tiling: HaloTiling) -> FusedGraph | None:
    """The graph with the run rewritten; None where rows set aside leave no room (H5).

    Its capacity is what they leave, its machines know the whole.
    """
    run = tiling.run
    rows = list(reversed(rows_of(tiling, graph.operators[run.last].bounds[run.last_dim])))
    operators = list(graph.operators)
    aside = 0.0
    for i, own in enumerate(rows):
        at = run.first + i
        dim = run.links[i].wrote if i < len(run.links) else run.last_dim
        before = (run.links[i - 1], rows[i - 1]) if i else None
        operators[at] = _rewritten(graph.operators[at], dim, own, tiling.steps, before)
        if own.aside:
            out = next(t for t in graph.operators[at].operands if t.output)
            sizes = graph.operators[at].bounds | {dim: own.aside}
            aside += out.words(sizes) * graph.machines[at][0].memories[SHARED].width(out)
    if aside >= graph.capacity_bits:
        return None
    machines = tuple(tuple(_machine(m, o) for m in ms) for ms, o in zip(graph.machines, operators, strict=True))
    return replace(graph, operators=tuple(operators), machines=machines, capacity_bits=graph.capacity_bits - aside)


def _rewritten(operator: Operator, dim: str, rows: Rows, steps: int, before: tuple[Link, Rows] | None) -> Operator:
    """An operator that makes `rows.made` rows in each of the steps; `before` says how it reads the one before it."""
    step = f"{dim}.{STEP}"
    operands = []
    for operand in operator.operands:
        axes, ranks = [], []
        names = operand.ranks or tuple(str(i) for i in range(len(operand.axes)))
        for rank, axis in zip(names, operand.axes, strict=True):
            terms = dict(axis)
            if dim not in terms:
                axes.append(axis)
            elif operand.output or (
                before is not None and (operand.tensor, rank) == (before[0].tensor, before[0].rank)
            ):
                axes += [((step, 1),), axis]
                ranks.append(f"{rank}.{STEP}")
            else:
                axes.append(((step, terms[dim] * rows.advance), *axis))
            ranks.append(rank)
        operands.append(replace(operand, axes=tuple(axes), ranks=tuple(ranks)))
    return replace(operator, operands=tuple(operands), bounds={step: steps, **operator.bounds, dim: rows.made})


def _machine(machine: Machine, operator: Operator) -> Machine:
    """The machine for the rewritten operator: any dimension may lie on a fan-out (G3)."""
    every = frozenset(operator.bounds)
    return replace(machine, fanouts=tuple(tuple(replace(f, dims=every) for f in axes) for axes in machine.fanouts))
