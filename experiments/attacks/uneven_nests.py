"""Every uneven nest of a small operator (rules U1 to U14), its cost from the loops that stand outside of each node, and a literal walk of it."""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from codesign.mapping.looptree import Fanout, Goal, Machine, Memory, Operand, Operator


@dataclass(frozen=True)
class Loop:
    """A loop; `above` is the level it fans out to, or none for a temporal one. A ragged loop makes `factor` steps of which the last is short."""

    dim: str
    factor: int
    above: int | None = None
    shared: frozenset[str] = frozenset()
    ragged: bool = False


@dataclass(frozen=True)
class Store:
    """A node; `hold` counts the loops under it that its space stands inside of."""

    level: int
    tensor: str
    hold: int = 0


Nest = tuple[Loop | Store, ...]


def axes(text: str) -> tuple[tuple[tuple[str, int], ...], ...]:
    """`p+r,c` as axes."""
    return tuple(tuple((d, 1) for d in part.split("+")) for part in text.split(","))


def gemm(m: int, n: int, k: int) -> Operator:
    """A matrix product."""
    operands = (
        Operand("A", axes("m,k"), bits=1),
        Operand("B", axes("k,n"), bits=1),
        Operand("Z", axes("m,n"), True, 1),
    )
    return Operator("gemm", operands, {"m": m, "n": n, "k": k})


def convolution(p: int, r: int, k: int) -> Operator:
    """A one-dimensional convolution with several filters."""
    operands = (
        Operand("A", axes("p+r"), bits=1),
        Operand("B", axes("r,k"), bits=1),
        Operand("Z", axes("p,k"), True, 1),
    )
    return Operator("convolution", operands, {"p": p, "r": r, "k": k})


def primes(n: int) -> list[int]:
    """Prime factors with repetition."""
    for p in range(2, n + 1):
        if n % p == 0:
            return [p, *primes(n // p)]
    return []


def words(operand: Operand, tile: dict[str, float]) -> float:
    """Words of a tile."""
    return math.prod(1 + sum(c * (tile[d] - 1) for d, c in axis) for axis in operand.axes)


def tile_from(operator: Operator, nest: Nest, position: int) -> dict[str, float]:
    """Sizes of the tile that the loops from a position on make."""
    sizes = dict.fromkeys(operator.bounds, 1.0)
    for dim in operator.bounds:
        inner = [x for x in nest[position:] if isinstance(x, Loop) and x.dim == dim]
        whole = any(x.ragged for x in inner)
        sizes[dim] = float(operator.bounds[dim]) if whole else float(math.prod(x.factor for x in inner))
    return sizes


def outside(operator: Operator, nest: Nest, tensor: Operand, position: int) -> tuple[float, float]:
    """Times a node at `position` is filled, all instances together, and the part of that in irrelevant spatial loops."""
    times, spread = 1.0, 1.0
    tile = tile_from(operator, nest, position)
    for dim, bound in operator.bounds.items():
        loops = [x for x in nest[:position] if isinstance(x, Loop) and x.dim == dim]
        if dim in tensor.dims:
            times *= bound / tile[dim]
        else:
            times *= math.prod(x.factor for x in loops)
            spread *= math.prod(x.factor for x in loops if x.above is not None)
    return times, spread


def instances(operator: Operator, nest: Nest, level: int) -> float:
    """How many instances of a level work, on average where a loop is ragged."""
    used = 1.0
    for position, x in enumerate(nest):
        if isinstance(x, Loop) and x.above is not None and x.above <= level:
            inner = (y.factor for y in nest[position + 1 :] if isinstance(y, Loop) and y.dim == x.dim)
            used *= operator.bounds[x.dim] / math.prod(inner) if x.ragged else x.factor
    return used


def charges(operator: Operator, machine: Machine, nest: Nest) -> tuple[float, float] | None:
    """Energy and seconds of a nest, from the loops that stand outside of each node; None if it does not fit."""
    n = len(machine.memories)
    traffic: dict[tuple[int, str], float] = defaultdict(float)
    held: dict[int, float] = defaultdict(float)
    ragged = {x.dim for x in nest if isinstance(x, Loop) and x.ragged}
    for tensor in operator.operands:
        places = [i for i, x in enumerate(nest) if isinstance(x, Store) and x.tensor == tensor.name]
        chain = [(0, 0), *((nest[i].level, i) for i in places), (n, len(nest))]  # type: ignore[union-attr]
        size = words(tensor, {d: float(b) for d, b in operator.bounds.items()})
        for (outer, start), (inner, stop) in itertools.pairwise(chain):
            times, spread = outside(operator, nest, tensor, stop)
            fill = times * words(tensor, tile_from(operator, nest, stop))
            copies = math.prod(
                x.factor
                for x in nest[start:stop]
                if isinstance(x, Loop)
                and x.above is not None
                and x.dim not in tensor.dims
                and tensor.name in x.shared
                and outer < x.above <= inner
            )
            back = fill - size * spread if tensor.output else 0.0
            if tensor.output:
                traffic[outer, "write"] += fill / copies
                traffic[outer, "read"] += back / copies
                traffic[inner, "read"] += fill
                traffic[inner, "write"] += back
            else:
                traffic[outer, "read"] += fill / copies
                traffic[inner, "write"] += fill
        for i in places:
            node = nest[i]
            assert isinstance(node, Store)
            held[node.level] += words(tensor, tile_from(operator, nest, i + 1 + node.hold)) * tensor.bits
    if any(held[m] > machine.memories[m].capacity for m in held):
        return None
    energy = machine.mac_energy * operator.macs
    used = [instances(operator, nest, m) for m in range(n + 1)]
    seconds = operator.macs / used[n] * machine.mac_seconds
    for m, memory in enumerate(machine.memories):
        energy += traffic[m, "read"] * memory.read + traffic[m, "write"] * memory.write
        for read, write in memory.ports:
            seconds = max(seconds, (traffic[m, "read"] * read + traffic[m, "write"] * write) / used[m])
    assert not ragged or operator.simple >= ragged
    return energy, seconds


def elements(tensor: Operand, inner: Nest, offset: dict[str, int]) -> list[tuple[int, ...]]:
    """Elements of a tensor that the loops `inner` reach from an offset of every dimension."""
    size = {d: math.prod(x.factor for x in inner if isinstance(x, Loop) and x.dim == d) for d in offset}
    ranges = []
    for axis in tensor.axes:
        low = sum(c * offset[d] for d, c in axis)
        ranges.append(range(low, low + sum(c * (size[d] - 1) for d, c in axis) + 1))
    return list(itertools.product(*ranges))


def literal(operator: Operator, machine: Machine, nest: Nest) -> dict[tuple[int, str], float]:
    """Words read and written at each level by walking a nest step by step; no formula but the size of a tile."""
    n = len(machine.memories)
    traffic: dict[tuple[int, str], float] = defaultdict(float)
    seen: set[object] = set()
    tensors = {t.name: t for t in operator.operands}

    def visit(
        tensor: Operand,
        level: int,
        position: int,
        offset: dict[str, int],
        where: tuple[int, ...],
        outer: int,
        first: bool,
    ) -> None:
        for element in elements(tensor, nest[position:], offset):
            old = (tensor.name, level, where, element) in seen
            seen.add((tensor.name, level, where, element))
            if tensor.output:
                traffic[level, "read"] += 1
                traffic[outer, "write"] += first
                if old:
                    traffic[level, "write"] += 1
                    traffic[outer, "read"] += first
            else:
                traffic[level, "write"] += 1
                traffic[outer, "read"] += first

    def walk(
        position: int, offset: dict[str, int], where: tuple[int, ...], outer: dict[str, int], first: dict[str, bool]
    ) -> None:
        if position == len(nest):
            for tensor in operator.operands:
                visit(tensor, n, position, offset, where, outer[tensor.name], first[tensor.name])
            return
        x = nest[position]
        if isinstance(x, Store):
            tensor = tensors[x.tensor]
            visit(tensor, x.level, position + 1, offset, where, outer[x.tensor], first[x.tensor])
            walk(position + 1, offset, where, {**outer, x.tensor: x.level}, {**first, x.tensor: True})
            return
        inner = math.prod(y.factor for y in nest[position + 1 :] if isinstance(y, Loop) and y.dim == x.dim)
        for i in range(x.factor):
            moved = {**offset, x.dim: offset[x.dim] + i * inner}
            if x.above is None:
                walk(position + 1, moved, where, outer, first)
                continue
            flags = {t: f and (i == 0 or x.dim in tensors[t].dims or t not in x.shared) for t, f in first.items()}
            walk(position + 1, moved, (*where, i), outer, flags)

    walk(0, dict.fromkeys(operator.bounds, 0), (), dict.fromkeys(tensors, 0), dict.fromkeys(tensors, True))
    return traffic


def splits(operator: Operator, machine: Machine, imperfect: bool) -> Iterator[dict[str, list[Loop]]]:
    """For every dimension its loops in any place: prime factors, laid out in space or in time, an outermost one ragged if allowed."""
    levels = [(v, axis) for v, axes_ in enumerate(machine.fanouts) for axis in axes_]
    options: dict[str, list[list[Loop]]] = {}
    for dim, bound in operator.bounds.items():
        chains: list[list[tuple[int, bool]]] = [[(p, False) for p in primes(bound)]]
        if imperfect and dim in operator.simple:
            for tile in range(1, bound):
                steps = -(-bound // tile)
                if steps * tile != bound:
                    chains.append([(steps, True), *((p, False) for p in primes(tile))])
        options[dim] = []
        for chain in chains:
            for places in itertools.product([None, *range(len(levels))], repeat=len(chain)):
                if any(i is not None and dim not in levels[i][1].dims for i in places):
                    continue
                loops = [
                    Loop(
                        dim,
                        f,
                        None if i is None else levels[i][0],
                        frozenset() if i is None else levels[i][1].shared,
                        r,
                    )
                    for (f, r), i in zip(chain, places, strict=True)
                ]
                key = sorted(loops, key=repr)
                if key not in options[dim]:
                    options[dim].append(key)
    for choice in itertools.product(*options.values()):
        flat = [x for loops in choice for x in loops]
        if all(
            math.prod(x.factor for x in flat if x.above == v and x.shared == axis.shared) <= axis.size
            for v, axis in levels
        ):
            yield dict(zip(options, choice, strict=True))


def nests(operator: Operator, machine: Machine, keeps: tuple[frozenset[str], ...], loops: list[Loop]) -> Iterator[Nest]:
    """Every order of loops and nodes in which levels and fan-outs stand in their order (U1)."""
    n = len(machine.memories)
    stores = {m: sorted(keeps[m]) for m in range(1, n)}

    def build(level: int, left: tuple[Loop, ...], todo: tuple[str, ...]) -> Iterator[Nest]:
        """Inside level `level`'s part: its nodes `todo` are still to come."""
        temporal = sorted({x for x in left if x.above is None}, key=repr)
        for x in temporal:
            rest = list(left)
            rest.remove(x)
            yield from ((x, *tail) for tail in build(level, tuple(rest), todo))
        for tensor in todo:
            yield from (
                (Store(level, tensor), *tail) for tail in build(level, left, tuple(t for t in todo if t != tensor))
            )
        if not todo:
            spatial = tuple(x for x in left if x.above == level + 1)
            rest2 = tuple(x for x in left if x.above != level + 1)
            for order in set(itertools.permutations(spatial)):
                if level + 1 == n:
                    if not rest2:
                        yield order
                else:
                    yield from ((*order, *tail) for tail in build(level + 1, rest2, tuple(stores[level + 1])))

    def fits(nest: Nest) -> bool:
        for i, x in enumerate(nest):
            if isinstance(x, Loop) and x.ragged and any(isinstance(y, Loop) and y.dim == x.dim for y in nest[:i]):
                return False
        return True

    sliding = {t.name: t.sliding for t in operator.operands}
    for nest in build(0, tuple(loops), ()):
        if not fits(nest):
            continue
        holds: list[list[int]] = []
        for i, x in enumerate(nest):
            if isinstance(x, Store):
                run, dim = 0, None
                for y in nest[i + 1 :]:
                    if (
                        not isinstance(y, Loop)
                        or y.above is not None
                        or y.dim not in sliding[x.tensor]
                        or dim not in (None, y.dim)
                    ):
                        break
                    run, dim = run + 1, y.dim
                holds.append(list(range(run + 1)))
        for chosen in itertools.product(*holds):
            pick = iter(chosen)
            yield tuple(Store(x.level, x.tensor, next(pick)) if isinstance(x, Store) else x for x in nest)


def blind(operator: Operator, machine: Machine, goal: Goal, imperfect: bool) -> float:
    """The least objective of all nests."""
    best = math.inf
    for keeps in machine.keeps:
        for split in splits(operator, machine, imperfect):
            for nest in nests(operator, machine, keeps, [x for loops in split.values() for x in loops]):
                found = charges(operator, machine, nest)
                if found is not None:
                    best = min(best, goal.of(*found, machine.leak_w))
    return best


def problem(seed: int, imperfect: bool) -> tuple[Operator, Machine, Goal]:
    """A random small problem."""
    rng = random.Random(seed)
    levels = 3 if rng.random() < 0.3 and not imperfect else 2
    if imperfect:
        operator = gemm(rng.choice([1, 2]), rng.choice([1, 3]), rng.choice([3, 5]))
    elif rng.random() < 0.35:
        operator = convolution(rng.choice([2, 3]), 2, rng.choice([1, 2]))
    else:
        operator = gemm(rng.choice([2, 4]), rng.choice([1, 3]), 2) if levels == 2 else gemm(2, 1, 3)
    everything = frozenset("ABZ")
    memories = [
        Memory(
            "outer", math.inf, rng.uniform(3, 9), rng.uniform(3, 9), ((rng.choice([0.0, 0.2]), rng.choice([0.0, 0.3])),)
        )
    ]
    for m in range(1, levels):
        memories.append(
            Memory(
                f"inner{m}",
                float(rng.randint(2, 14)),
                rng.uniform(0.1, 2),
                rng.uniform(0.1, 2),
                ((rng.choice([0.0, 0.1]),) * 2,),
            )
        )
    fanouts: list[tuple[Fanout, ...]] = [() for _ in range(levels + 1)]
    if rng.random() < 0.6:
        where = rng.randint(1, levels)
        dims = frozenset(rng.sample(sorted(operator.bounds), 2))
        fanouts[where] = (Fanout("x", rng.choice([2, 3]), dims, frozenset(rng.sample("ABZ", 2))),)
    keeps = {
        (everything, *(frozenset(t for t in "ABZ" if rng.random() < 0.8) for _ in range(1, levels))) for _ in range(2)
    }
    leak = rng.choice([0.0, 0.5])
    machine = Machine(
        tuple(memories), tuple(fanouts), 0.1, rng.choice([0.0, 1.0]), leak, tuple(sorted(keeps, key=repr))
    )
    return operator, machine, rng.choice(list(Goal))
