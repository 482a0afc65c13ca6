"""Small layers on drawn accelerators under the zigzag semantics, and every order with every choice of cuts (rules Z21-Z24)."""

import itertools
import math
import random
from collections.abc import Iterator

from codesign.cost.zigzag.accelerator import Accelerator, Memory, Port
from codesign.cost.zigzag.cost import AllocatedOrder, evaluate
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mappers.loop_order.factors import prime_loops
from codesign.workloads.computation import Computation, Role

ROLES = (Role.INPUT, Role.WEIGHT, Role.OUTPUT)


def memory(draw: random.Random, name: str, bits: int, roles: tuple[Role, ...], served: frozenset[str]) -> Memory:
    """A memory with one port for everything, or one for each direction."""
    width = draw.choice((8, 24, 64))
    moves = [(role, d) for role in roles for d in ("tl", "fl", "th", "fh")]
    if draw.random() < 0.5:
        ports: tuple[Port, ...] = (Port("all", width, width, tuple(moves)),)
    else:
        ports = tuple(
            Port(f"p{i}", width, width * draw.choice((1, 2)), tuple(m for m in moves if m[1] in ds))
            for i, ds in enumerate((("tl", "th"), ("fl", "fh")))
        )
    return Memory(name, bits, draw.randint(1, 20), draw.randint(1, 20), 0.0, roles, ports, served)


def accelerator(draw: random.Random) -> Accelerator:
    """Scratchpads for some tensors, one or two shared buffers, DRAM."""
    array = (("D1", 2), ("D2", 3))
    every = frozenset(("D1", "D2"))
    memories = []
    for role in ROLES:
        if draw.random() < 0.6:
            served = draw.choice((frozenset(), frozenset(("D1",))))
            memories.append(memory(draw, f"pad_{role.value}", draw.choice((24, 48, 96)), (role,), served))
    if draw.random() < 0.8:
        roles = draw.choice((ROLES, (Role.INPUT, Role.OUTPUT), (Role.WEIGHT, Role.OUTPUT), (Role.INPUT, Role.WEIGHT)))
        memories.append(memory(draw, "buffer", draw.choice((150, 300, 600)), roles, every))
    if draw.random() < 0.4:
        memories.append(memory(draw, "outer", draw.choice((300, 600, 900)), ROLES, every))
    memories.append(memory(draw, "dram", draw.choice((1_500, 100_000)), ROLES, every))
    return Accelerator("drawn", tuple(memories), array, 1.0)


def layer(draw: random.Random) -> UnrolledLayer:
    """A small convolution or product on a drawn accelerator; some unrollings leave fractional units."""
    if draw.random() < 0.6:
        text = draw.choice(("O[k,p] += I[c,p+r] * W[k,c,r]", "O[k,p] += I[c,2*p+r] * W[k,c,r]"))
        bounds = {
            "k": draw.choice((2, 3, 4)),
            "c": draw.choice((1, 2)),
            "p": draw.choice((2, 4, 5)),
            "r": draw.choice((1, 3)),
        }
    else:
        text = "O[k,p] += I[c,p] * W[k,c]"
        bounds = {"k": draw.choice((2, 4, 6)), "c": draw.choice((2, 3, 4)), "p": draw.choice((2, 3, 4))}
    computation = Computation.parse(
        text, bounds, bits=8, partial_bits=draw.choice((8, 24)), roles={"I": Role.INPUT, "W": Role.WEIGHT}
    )
    unrolling = []
    for axis, size in (("D1", 2), ("D2", 3)):
        if draw.random() < 0.5:
            unrolling.append((axis, ((draw.choice(computation.dims), size),)))
    return UnrolledLayer(computation, accelerator(draw), tuple(unrolling))


def tiles(case: UnrolledLayer, tensor: int, units: dict[str, float]) -> float:
    """Elements that a tensor has in a tile of these extents; sums of two dimensions are clipped to the whole."""
    whole = {d: float(b) for d, b in case.computation.sizes.items()}
    total = 1.0
    for axis in case.computation.tensors[tensor].axes:
        lengths = []
        for extent in (units, whole):
            if len(axis.terms) == 1:
                lengths.append(extent[axis.terms[0][0]])
                continue
            (a, x), (b, y) = axis.terms
            lengths.append(
                extent[a] * extent[b]
                - max(0.0, extent[b] - x / math.gcd(x, y)) * max(0.0, extent[a] - y / math.gcd(x, y))
            )
        total *= min(lengths)
    return total


def fits(case: UnrolledLayer, mapping: AllocatedOrder) -> bool:
    """Whether the tiles of every memory fit together, the width of an output's tile settled where its level begins."""
    comp, machine = case.computation, case.accelerator
    along = case.units_along(whole=False)
    used = dict.fromkeys(range(len(machine.memories)), 0.0)
    for t, tensor in enumerate(comp.tensors):
        begin = 0
        for v, m in enumerate(machine.chain(tensor.role)):
            cut = mapping.cuts[t][v]
            units = dict.fromkeys(comp.dims, 1.0)
            above = False
            for axis, loops in along.items():
                for d, n in loops.items():
                    if axis in machine.memories[m].served:
                        units[d] *= n
                    else:
                        above = above or (n > 1 and d in comp.reduced_dims)
            for d, n in mapping.loops[:cut]:
                units[d] *= n
            partial = above or any(d in comp.reduced_dims for d, _ in mapping.loops[begin:])
            width = tensor.partial_bits if tensor.role is Role.OUTPUT and partial else tensor.bits
            used[m] += tiles(case, t, units) * width
            begin = cut
    return all(bits <= machine.memories[m].usable_bits * (1 + 1e-9) for m, bits in used.items())


def mappings(case: UnrolledLayer) -> Iterator[AllocatedOrder]:
    """Every order with every choice of cuts."""
    loops = prime_loops(case)
    n = len(loops)
    levels = [len(case.accelerator.chain(t.role)) for t in case.computation.tensors]
    cuts = [[(*inner, n) for inner in itertools.combinations_with_replacement(range(n + 1), v - 1)] for v in levels]
    for order in sorted(set(itertools.permutations(loops))):
        for choice in itertools.product(*cuts):
            yield AllocatedOrder(order, choice)


def least(case: UnrolledLayer) -> float:
    """The least energy of all."""
    return min((evaluate(case, m).energy_pj for m in mappings(case) if fits(case, m)), default=math.inf)
