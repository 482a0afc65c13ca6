"""All pairs of nests of two chained operators, apart or with the tensor between them on the chip (rules F1 to F5)."""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterator

from codesign.mapping.looptree import Goal, Machine, Memory, Operand, Operator
from experiments.attacks.uneven_nests import Loop, Nest, Store, axes, primes, words

Way = tuple[tuple[float, ...], float, float, float]
"""Bits at each depth of the shared loops, most bits inside, energy, seconds."""


def chain(m: int, k: int, j: int, n: int) -> tuple[Operator, Operator]:
    """``T = A B``, ``Z = T C``."""
    first = (
        Operand("A", axes("m,k"), bits=1, ranks=("M", "K")),
        Operand("B", axes("k,j"), bits=1, ranks=("K", "J")),
        Operand("T", axes("m,j"), True, 1, ("M", "J")),
    )
    second = (
        Operand("T", axes("m,j"), bits=1, ranks=("M", "J")),
        Operand("C", axes("j,n"), bits=1, ranks=("J", "N")),
        Operand("Z", axes("m,n"), True, 1, ("M", "N")),
    )
    return Operator("first", first, {"m": m, "k": k, "j": j}), Operator("second", second, {"m": m, "j": j, "n": n})


def nests(operator: Operator, stores: tuple[str, ...]) -> Iterator[Nest]:
    """Every order of prime loops and nodes of the one inner level."""
    loops = [Loop(d, p) for d, bound in operator.bounds.items() for p in primes(bound)]

    def build(left: tuple[Loop, ...], todo: tuple[str, ...]) -> Iterator[Nest]:
        if not left and not todo:
            yield ()
        for x in sorted(set(left), key=repr):
            rest = list(left)
            rest.remove(x)
            yield from ((x, *tail) for tail in build(tuple(rest), todo))
        for t in todo:
            yield from ((Store(1, t), *tail) for tail in build(left, tuple(u for u in todo if u != t)))

    yield from build(tuple(loops), stores)


def cost(operator: Operator, machine: Machine, nest: Nest, chip: bool) -> tuple[float, float]:
    """Energy and seconds; an intermediate on the chip moves nothing further out."""
    traffic: dict[tuple[int, str], float] = defaultdict(float)
    for tensor in operator.operands:
        places = [(1, i) for i, x in enumerate(nest) if isinstance(x, Store) and x.tensor == tensor.name]
        begin = [] if chip and tensor.name == "T" else [(0, 0)]
        for (outer, _), (inner, stop) in itertools.pairwise([*begin, *places, (2, len(nest))]):
            tile = {
                d: float(math.prod(x.factor for x in nest[stop:] if isinstance(x, Loop) and x.dim == d))
                for d in operator.bounds
            }
            fill = words(tensor, tile) * math.prod(x.factor for x in nest[:stop] if isinstance(x, Loop))
            back = fill - words(tensor, {d: float(b) for d, b in operator.bounds.items()}) if tensor.output else 0.0
            traffic[outer, "write"] += fill if tensor.output else 0.0
            traffic[outer, "read"] += back if tensor.output else fill
            traffic[inner, "read"] += fill if tensor.output else 0.0
            traffic[inner, "write"] += back if tensor.output else fill
    energy = machine.mac_energy * operator.macs + sum(
        traffic[v, "read"] * memory.read + traffic[v, "write"] * memory.write
        for v, memory in enumerate(machine.memories)
    )
    seconds = max(
        [
            operator.macs * machine.mac_seconds,
            *(
                traffic[v, "read"] * a + traffic[v, "write"] * b
                for v, m in enumerate(machine.memories)
                for a, b in m.ports
            ),
        ]
    )
    return energy, seconds


def line_buffered(nest: Nest, i: int, stop: int, operands: dict[str, Operand], sizes: dict[str, int]) -> dict[str, int]:
    """Sizes of the tile that node i holds: the one inside the loop directly under it where its window slides along it (U7).

    Loops before `stop` are shared, and no loop of a line buffer.
    """
    node, below = nest[i], list(itertools.takewhile(lambda x: isinstance(x, Loop), nest[i + 1 :]))
    first = below[0] if below else None
    if not isinstance(first, Loop) or not isinstance(node, Store) or i < stop:
        return sizes
    if not any(len(axis) > 1 and first.dim in dict(axis) for axis in operands[node.tensor].axes):
        return sizes
    loop = itertools.takewhile(lambda x: isinstance(x, Loop) and x.dim == first.dim, below)
    return {**sizes, first.dim: sizes[first.dim] // math.prod(x.factor for x in loop if isinstance(x, Loop))}


def ways(
    operator: Operator, machine: Machine, stores: tuple[str, ...], chip: bool
) -> dict[tuple[tuple[str, int], ...], set[Way]]:
    """All ways by the shared loops above the intermediate (none if it is not on the chip): dimension and tile inside."""
    found: dict[tuple[tuple[str, int], ...], set[Way]] = defaultdict(set)
    operands = {t.name: t for t in operator.operands}
    for nest in nests(operator, stores):
        stop = next((i for i, x in enumerate(nest) if isinstance(x, Store) and x.tensor == "T"), 0) if chip else 0
        sizes = dict(operator.bounds)
        shared: list[tuple[str, int]] = []
        bits, inside, merged, good = [0.0], 0.0, False, True
        for i, x in enumerate(nest):
            if isinstance(x, Loop):
                sizes[x.dim] //= x.factor
                if i < stop:
                    good &= x.dim in operands["T"].dims
                    if merged and shared[-1][0] == x.dim:
                        shared[-1] = (x.dim, sizes[x.dim])
                    else:
                        shared.append((x.dim, sizes[x.dim]))
                        bits.append(0.0)
                    merged = True
            elif not (chip and x.tensor == "T"):
                held = words(
                    operands[x.tensor], {d: float(s) for d, s in line_buffered(nest, i, stop, operands, sizes).items()}
                )
                if i < stop:
                    bits[-1] += held
                    merged = False
                else:
                    inside += held
        if good and len({d for d, _ in shared}) == len(shared):
            found[tuple(shared)].add((tuple(bits[:-1]), inside + bits[-1], *cost(operator, machine, nest, chip)))
    return found


def blind(operators: tuple[Operator, Operator], machine: Machine, goal: Goal) -> float:
    """The least objective, the intermediate outside or on the chip."""
    capacity = machine.memories[1].capacity
    best = math.inf
    alone = []
    for o in operators:
        options = [w for way in ways(o, machine, tuple(t.name for t in o.operands), False).values() for w in way]
        alone.append({(e, s) for _, inside, e, s in options if inside <= capacity})
    for (e1, s1), (e2, s2) in itertools.product(*alone):
        best = min(best, goal.of(e1 + e2, s1 + s2, machine.leak_w))
    chip = [ways(o, machine, tuple(t.name for t in o.operands), True) for o in operators]
    for shared, first in chip[0].items():
        tile = {**operators[0].bounds, **dict(shared)}
        between = tile["m"] * tile["j"]
        for (w1, i1, e1, s1), (w2, i2, e2, s2) in itertools.product(first, chip[1].get(shared, ())):
            if sum(w1) + sum(w2) + between + max(i1, i2) <= capacity:
                best = min(best, goal.of(e1 + e2, s1 + s2, machine.leak_w))
    return best


def pair(rng: random.Random) -> tuple[tuple[Operator, Operator], list[list[Machine]], Goal]:
    """Two chained products, the ways each may be run, and what is minimised."""
    operators = chain(rng.choice([2, 4]), 2, rng.choice([2, 3]), 2)
    memories = (
        Memory("outer", math.inf, rng.uniform(3, 9), rng.uniform(3, 9), ((rng.choice([0.0, 0.2]),) * 2,)),
        Memory(
            "inner",
            float(rng.randint(4, 24)),
            rng.uniform(0.1, 2),
            rng.uniform(0.1, 2),
            ((rng.choice([0.0, 0.1]),) * 2,),
        ),
    )
    machines = []
    for o in operators:
        names = frozenset(t.name for t in o.operands)
        keeps = ((names, names), (names - {"T"}, names))
        machines.append([Machine(memories, ((), (), ()), 0.1, rng.choice([0.0, 1.0]), 0.0, keeps)])
    machines[1][0] = Machine(memories, ((), (), ()), 0.1, machines[0][0].mac_seconds, 0.0, machines[1][0].keeps)
    goal = rng.choice(list(Goal))
    return operators, machines, goal
