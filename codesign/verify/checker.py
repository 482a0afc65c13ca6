"""A plain check of a certificate: its nest, that its claims cover the space, and that each claim is true.

Nothing is shared with the search: profiles are enumerated again, and each claim is tested by a walk from the whole tile inwards (the search
goes outwards) over undominated partial nests, pruned by the fewest words of the nodes still to come.
"""

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Iterator

from codesign.core.errors import UserError
from codesign.cost.looptree import Loop, evaluate
from codesign.mapping.looptree import Goal, Machine, Operand, Operator
from codesign.verify.certificate import Certificate
from codesign.verify.even.problem import divisors
from codesign.verify.verdict import Verdict

SAME = 1e-9
Vectors = tuple[tuple[tuple[tuple[str, int], ...], ...], ...]


def verify_uneven(given: Certificate, stop: float) -> Verdict:
    """Check everything a certificate says; `stop` in CPU seconds of the process."""
    operator, machine = given.operator, given.machine
    try:
        cost = evaluate(operator, machine, given.nest)
    except UserError as error:
        return Verdict(False, f"the nest: {error}")
    value = cost.value(given.goal, machine.leak_w)
    if not math.isclose(value, given.value, rel_tol=SAME):
        return Verdict(False, f"the nest has the value {value:.12g}, the certificate says {given.value:.12g}")
    claimed: dict[object, float] = {}
    for claim in given.claims:
        claimed[_key(claim.spatial, claim.keeps)] = claim.bound
    spaces = list(_profiles(operator, machine))
    if not any(_same_spatial(given, s) for s in spaces):
        return Verdict(False, "the nest uses its fan-outs less than it must")
    for spatial in spaces:
        for keeps in machine.keeps:
            bound = claimed.get(_key(spatial, keeps))
            if bound is None:
                return Verdict(False, f"no claim covers spatial factors {spatial} with {[sorted(k) for k in keeps]}")
            if bound < given.value * (1 - SAME):
                return Verdict(False, f"a claim says only {bound:.12g}, below the value {given.value:.12g}")
            if time.process_time() > stop:
                return Verdict(False, "the time limit ended the check")
            if _Walk(operator, machine, spatial, keeps, given.goal).beats(given.value * (1 - SAME), stop):
                return Verdict(
                    False, f"a mapping below {given.value:.12g} exists with spatial factors {spatial}, or time ran out"
                )
    return Verdict(True, f"{len(spaces) * len(machine.keeps)} claims hold")


def _key(spatial: Vectors, keeps: tuple[frozenset[str], ...]) -> object:
    return tuple(tuple(tuple(sorted(p for p in v if p[1] > 1)) for v in axes) for axes in spatial), keeps


def _same_spatial(given: Certificate, spatial: Vectors) -> bool:
    """Whether the nest uses every axis at least as far as some profile of the space does."""
    used: dict[tuple[int, str], int] = defaultdict(lambda: 1)
    for x in given.nest:
        if isinstance(x, Loop) and x.level is not None:
            used[x.level, x.axis] *= x.steps
    return all(
        used[v, axis.name] >= math.prod(f for _, f in vector)
        for v, axes in enumerate(given.machine.fanouts)
        for axis, vector in zip(axes, spatial[v], strict=True)
        if axis.min_usage > 0
    )


def _factors(dims: list[str], left: dict[str, int], size: int) -> Iterator[tuple[tuple[str, int], ...]]:
    if not dims:
        yield ()
        return
    for factor in range(1, min(left[dims[0]], size) + 1):
        if left[dims[0]] % factor == 0:
            for rest in _factors(dims[1:], left, size // factor):
                yield (((dims[0], factor),) if factor > 1 else ()) + rest


def _profiles(operator: Operator, machine: Machine) -> Iterator[Vectors]:
    """All spatial factors that rule U9 allows."""
    flat = [axis for axes in machine.fanouts for axis in axes]

    def build(i: int, left: dict[str, int]) -> Iterator[tuple[tuple[tuple[str, int], ...], ...]]:
        if i == len(flat):
            yield ()
            return
        for vector in _factors([d for d in operator.bounds if d in flat[i].dims], left, flat[i].size):
            inside = {d: left[d] // dict(vector).get(d, 1) for d in left}
            for rest in build(i + 1, inside):
                yield (vector, *rest)

    every = list(build(0, dict(operator.bounds)))
    need = [a.min_usage * a.size - 1e-9 for a in flat]
    full = [p for p in every if all(math.prod(f for _, f in v) >= n for v, n in zip(p, need, strict=True))]
    if not full:
        full = every
        for i in range(len(flat) - 1, -1, -1):
            if flat[i].min_usage > 0:
                most = max(math.prod(f for _, f in p[i]) for p in full)
                full = [p for p in full if math.prod(f for _, f in p[i]) >= min(need[i], most)]
    for chosen in full:
        rest = iter(chosen)
        yield tuple(tuple(next(rest) for _ in axes) for axes in machine.fanouts)


class _Walk:
    """Partial nests of one claim, from the whole tile inwards."""

    def __init__(
        self, operator: Operator, machine: Machine, spatial: Vectors, keeps: tuple[frozenset[str], ...], goal: Goal
    ) -> None:
        self.operator, self.machine, self.spatial, self.keeps, self.goal = operator, machine, spatial, keeps, goal
        self.n = len(machine.memories)
        self.dims = list(operator.bounds)
        self.used = [math.prod(f for axes in spatial[: m + 1] for v in axes for _, f in v) for m in range(self.n + 1)]
        self.ports = [(m, a, b) for m, memory in enumerate(machine.memories) for a, b in memory.ports]
        self.floor = operator.macs / self.used[self.n] * machine.mac_seconds

    def spread(self, dim: str, start: int, stop: int) -> int:
        """Spatial factors of `dim` above levels start..stop-1."""
        return math.prod(f for axes in self.spatial[start:stop] for v in axes for d, f in v if d == dim)

    def charge(self, tensor: Operand, parent: int, level: int, moved: float) -> list[float]:
        """Energy and port seconds of `moved` words into all instances of `level`."""
        outer = self.machine.memories[parent]
        shared = math.prod(
            f
            for v in range(parent + 1, level + 1)
            for axis, vector in zip(self.machine.fanouts[v], self.spatial[v], strict=True)
            for d, f in vector
            if tensor.name in axis.shared and d not in tensor.dims
        )
        back = 0.0
        if tensor.output:
            alone = math.prod(self.spread(d, 0, level + 1) for d in self.dims if d not in tensor.dims)
            back = moved - tensor.words(self.operator.bounds) * alone
        away = outer.width(tensor) / shared
        here = self.machine.memories[level].width(tensor) if level < self.n else 0.0
        down, up = (moved, 0.0) if not tensor.output else (back, moved)
        inner = self.machine.memories[level] if level < self.n else None
        total = [
            down * away * outer.read
            + up * away * outer.write
            + (here * (up * inner.read + down * inner.write) if inner else 0.0)
        ]
        for m, a, b in self.ports:
            seconds = (down * away * a + up * away * b) if m == parent else 0.0
            seconds += here * (up * a + down * b) if m == level else 0.0
            total.append(seconds / self.used[m])
        return total

    def beats(self, limit: float, stop: float) -> bool:
        """Whether some nest is below `limit`; also true if the time ended."""
        nodes: dict[int, list[tuple[Operand, int]]] = defaultdict(list)
        base = [self.machine.mac_energy * self.operator.macs, *(0.0 for _ in self.ports)]
        for tensor in self.operator.operands:
            chain = [m for m in range(self.n) if tensor.name in self.keeps[m]]
            for outer, inner in itertools.pairwise(chain):
                nodes[inner].append((tensor, outer))
            base = [
                a + b
                for a, b in zip(base, self.charge(tensor, chain[-1], self.n, float(self.operator.macs)), strict=True)
            ]
        levels = sorted(nodes)
        least = {m: [self.charge(t, p, m, self._fewest(t, m)) for t, p in nodes[m]] for m in levels}
        whole = tuple(self.operator.bounds[d] // self.spread(d, 0, self.n + 1) for d in self.dims)
        labels: dict[tuple[int, ...], list[tuple[float, ...]]] = {whole: [(0.0, *base)]}
        for i, m in enumerate(levels):
            later = [x for v in levels[i + 1 :] for x in least[v]]
            labels = self._level(m, nodes[m], least[m], later, labels, limit, stop)
            if not labels:
                return time.process_time() > stop
        return bool(labels) and (bool(levels) or self._value(base) < limit)

    def _fewest(self, tensor: Operand, level: int) -> float:
        return tensor.words(self.operator.bounds) * math.prod(
            self.spread(d, 0, level + 1) for d in self.dims if d not in tensor.dims
        )

    def _value(self, charges: list[float] | tuple[float, ...]) -> float:
        seconds: float = max([self.floor, *charges[1:]])
        return self.goal.of(charges[0], seconds, self.machine.leak_w)

    def _level(
        self,
        level: int,
        nodes: list[tuple[Operand, int]],
        least: list[list[float]],
        later: list[list[float]],
        start: dict[tuple[int, ...], list[tuple[float, ...]]],
        limit: float,
        stop: float,
    ) -> dict[tuple[int, ...], list[tuple[float, ...]]]:
        """Labels (bits, charges) by tile after all nodes of a level; a state names placed nodes and the window that is still open."""
        inside = [self.spread(d, level + 1, self.n + 1) for d in self.dims]
        capacity, width = self.machine.memories[level].capacity, self.machine.memories[level].width
        states: dict[tuple[tuple[int, ...], frozenset[int], tuple[int, str] | None], list[tuple[float, ...]]] = (
            defaultdict(list)
        )
        for tile, found in start.items():
            states[tile, frozenset(), None] = [(0.0, *row[1:]) for row in found]
        done: dict[tuple[int, ...], list[tuple[float, ...]]] = {}
        tiles = sorted(itertools.product(*(divisors(t) for t in map(max, zip(*start, strict=True)))), reverse=True)
        for tile in tiles:
            if time.process_time() > stop:
                return {}
            size = {d: t * f for d, t, f in zip(self.dims, tile, inside, strict=True)}
            outside = math.prod(self.operator.bounds[d] // size[d] for d in self.dims)
            for count in range(len(nodes) + 1):
                for placed in map(frozenset, itertools.combinations(range(len(nodes)), count)):
                    waits: list[tuple[int, str] | None] = [(j, d) for j in placed for d in sorted(nodes[j][0].sliding)]
                    for wait in (*waits, None):
                        rows = self._kept(
                            states.pop((tile, placed, wait), []),
                            [least[j] for j in range(len(nodes)) if j not in placed] + later,
                            limit,
                        )
                        if not rows:
                            continue
                        if wait is not None:
                            bits = nodes[wait[0]][0].words(size) * width(nodes[wait[0]][0])
                            states[tile, placed, None] += [
                                (r[0] + bits, *r[1:]) for r in rows if r[0] + bits <= capacity
                            ]
                        elif count == len(nodes):
                            done[tile] = rows
                        for a, dim in enumerate(self.dims):
                            if wait is None or wait[1] == dim:
                                for p in _primes(tile[a]):
                                    inner = (*tile[:a], tile[a] // p, *tile[a + 1 :])
                                    states[inner, placed, wait] += rows
                        if wait is None:
                            for j, (tensor, parent) in enumerate(nodes):
                                if j not in placed:
                                    add = self.charge(tensor, parent, level, float(tensor.words(size) * outside))
                                    bits = tensor.words(size) * width(tensor)
                                    grown = [(r[0], *(x + y for x, y in zip(r[1:], add, strict=True))) for r in rows]
                                    states[tile, placed | {j}, None] += [
                                        (r[0] + bits, *r[1:]) for r in grown if r[0] + bits <= capacity
                                    ]
                                    for dim in tensor.sliding:
                                        states[tile, placed | {j}, (j, dim)] += grown
        return done

    def _kept(self, rows: list[tuple[float, ...]], to_come: list[list[float]], limit: float) -> list[tuple[float, ...]]:
        """Undominated rows that may still get below the limit."""
        more = [sum(x) for x in zip(*to_come, strict=True)] if to_come else [0.0] * (1 + len(self.ports))
        kept: list[tuple[float, ...]] = []
        for row in sorted(set(rows)):
            if self._value([a + b for a, b in zip(row[1:], more, strict=True)]) >= limit:
                continue
            if not any(all(a <= b for a, b in zip(k, row, strict=True)) for k in kept):
                kept.append(row)
        return kept


def _primes(n: int) -> list[int]:
    return [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]
