"""The kernel's loads of a mesh equal a walk over sets of links, and its bound is never above the event tier."""

import math
from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.arch.architecture import Architecture, LevelKind, Links
from codesign.arch.mesh import MeshLinks
from codesign.cost.cost import Cost, evaluate
from codesign.mapping.mapping import Mapping, Spatial, Storage, Temporal
from codesign.timing.noc.network import reduction_steps
from codesign.timing.simulate import Run, simulate
from codesign.timing.table import Timing
from codesign.workloads.computation import Computation
from tests.property.test_kernel_against_oracle import problems

Loads = dict[tuple[bool, int, int], Fraction]
Problem = tuple[Computation, Architecture, Mapping]
NO_LATENCIES = Timing("none")


def on_meshes(plain: Architecture, draw: st.DataObject) -> Architecture:
    levels = []
    for level in plain.levels:
        fanout = level.fanout
        if fanout.size > 1:
            width, height = fanout.x + draw.draw(st.integers(0, 1)), fanout.y
            nodes = st.integers(0, width * height - 1)
            mesh = MeshLinks(
                width,
                height,
                parents=tuple(sorted(draw.draw(st.sets(nodes, min_size=1, max_size=2)))),
                trees=draw.draw(st.booleans()),
                flit_bits=draw.draw(st.sampled_from([8, 32])),
                speculative=draw.draw(st.booleans()),
            )
            fanout = replace(fanout, links=Links.MESH, mesh=mesh)
        levels.append(replace(level, fanout=fanout))
    return replace(plain, levels=tuple(levels))


@settings(max_examples=60, deadline=None)
@given(problems(), st.data())
def test_bound_is_never_above_the_simulation(problem: Problem, data: st.DataObject) -> None:
    computation, plain, mapping = problem
    architecture = on_meshes(plain, data)
    cost = evaluate(computation, architecture, mapping)
    run = simulate(computation, architecture, mapping, NO_LATENCIES)
    assert isinstance(cost, Cost)
    assert isinstance(run, Run)
    for level in cost.levels:
        if level.mesh_cycles is not None:
            assert level.mesh_cycles <= cost.latency_cycles
            if run.complete:
                assert level.mesh_cycles <= run.latency_cycles


@settings(max_examples=60, deadline=None)
@given(problems(), st.data())
def test_loads_of_links_are_those_of_sets_of_links(problem: Problem, data: st.DataObject) -> None:
    computation, plain, mapping = problem
    architecture = on_meshes(plain, data)
    cost = evaluate(computation, architecture, mapping)
    plain_cost = evaluate(computation, plain, mapping)
    assert isinstance(cost, Cost)
    assert isinstance(plain_cost, Cost)
    for m, level in enumerate(architecture.levels):
        if level.fanout.mesh is not None and m + 1 < len(architecture.levels):
            expected = busiest_link(computation, architecture, mapping, m, cost)
            if expected is not None:
                assert cost.levels[m].mesh_cycles == math.ceil(expected)


def busiest_link(
    computation: Computation, architecture: Architecture, mapping: Mapping, m: int, cost: Cost
) -> Fraction | None:
    """Cycles of the mesh by sets of links, where every tensor that crosses is kept by the level right below; None elsewhere.

    Tensors that fill buffers take turns, and whole tiles have whole flits; what streams to registers shares the links.
    """
    links = architecture.levels[m].fanout.mesh
    assert links is not None
    above = {s.tensor for s in mapping.nodes if isinstance(s, Storage) and architecture.level_index[s.level] <= m}
    below = {s.tensor for s in mapping.nodes if isinstance(s, Storage) and architecture.level_index[s.level] == m + 1}
    names = {t.name for t in computation.tensors}
    if above != names or below != names:
        return None
    shared: Loads = {}
    cycles = {False: Fraction(0), True: Fraction(0)}
    registers = architecture.levels[m + 1].kind is LevelKind.REGISTERS
    children = children_of(computation, architecture, mapping, m, links.width)
    inner = {t.tensor: t for t in cost.levels[m + 1].tensors}
    for tensor in computation.tensors:
        output = tensor.name == computation.output.name
        groups: dict[tuple[int, ...], list[int]] = {}
        for c, (node, offset) in enumerate(children):
            where = tuple(sum(k * offset.get(d, 0) for d, k in axis.terms) for axis in tensor.axes)
            groups.setdefault((*where, 0) if links.trees else (*where, c), []).append(node)
        instances = cost.levels[m + 1].instances
        fills = Fraction(inner[tensor.name].fills, instances)
        bits = tensor.bits if m == 0 else tensor.partial_bits
        load: Loads = shared if registers else {}
        part = Fraction(bits, len(links.parents) * links.flit_bits)
        tile = inner[tensor.name].tile_words
        if not registers and moves_whole(computation, architecture, mapping, m + 1, tensor.name):
            part = Fraction(math.ceil(tile * part), tile)
        written = stored(computation, architecture, mapping, m, fills)
        for members in groups.values():
            for parent in links.parents:
                if fills:
                    down(load, links.width, parent, members[:1] if output else members, fills * part)
                if output:
                    up(load, links.width, parent, tuple(members), written * part)
        if not registers:
            for way in cycles:
                cycles[way] += max((v for (w, _, _), v in load.items() if w is way), default=Fraction(0))
    for way in cycles:
        cycles[way] += max((v for (w, _, _), v in shared.items() if w is way), default=Fraction(0))
    return max(cycles.values())


def moves_whole(computation: Computation, architecture: Architecture, mapping: Mapping, v: int, name: str) -> bool:
    """Whether the innermost temporal loop outside a tensor's tile at level v leaves no element of it in place, or all of them."""
    tensor = next(t for t in computation.tensors if t.name == name)
    nodes = list(mapping.nodes)
    place = next(
        i
        for i, n in enumerate(nodes)
        if isinstance(n, Storage) and n.tensor == name and architecture.level_index[n.level] == v
    )
    size: dict[str, int] = {}  # extent of each dimension within the tile
    for n in nodes[place:]:
        if not isinstance(n, Storage):
            size[n.dim] = size.get(n.dim, 1) * n.factor
    step = dict(size)
    for n in reversed(nodes[:place]):
        if isinstance(n, Storage):
            continue
        if isinstance(n, Temporal):
            tiles = []
            for at in (0, step.get(n.dim, 1)):
                start = {n.dim: at}
                spans = [
                    range(
                        sum(k * start.get(d, 0) for d, k in axis.terms),
                        sum(k * (start.get(d, 0) + size.get(d, 1) - 1) for d, k in axis.terms) + 1,
                    )
                    for axis in tensor.axes
                ]
                tiles.append(spans)
            apart = any(not set(a) & set(b) for a, b in zip(*tiles, strict=True))
            return apart or tiles[0] == tiles[1]
        step[n.dim] = step.get(n.dim, 1) * n.factor
    return True


def stored(computation: Computation, architecture: Architecture, mapping: Mapping, m: int, fills: Fraction) -> Fraction:
    """Elements one child stores: what it loaded again, and every element it is responsible for once."""
    words = Fraction(computation.tensor_words(computation.output))
    dims = {d for axis in computation.output.axes for d, _ in axis.terms}
    for node in mapping.nodes:
        if isinstance(node, Spatial) and architecture.level_index[node.level] <= m and node.dim in dims:
            words /= node.factor
    return fills + words


def children_of(
    computation: Computation, architecture: Architecture, mapping: Mapping, m: int, width: int
) -> list[tuple[int, dict[str, int]]]:
    """Node and offsets by dimension of every child in use."""
    found: list[tuple[int, int, dict[str, int]]] = [(0, 0, {})]
    nodes = list(mapping.nodes)
    for i, node in enumerate(nodes):
        if not isinstance(node, Spatial) or architecture.level_index[node.level] != m:
            continue
        step = math.prod(n.factor for n in nodes[i + 1 :] if not isinstance(n, Storage) and n.dim == node.dim)
        more = []
        for x, y, offset in found:
            for f in range(node.factor):
                moved = offset | {node.dim: offset.get(node.dim, 0) + f * step}
                along_x = node.axis == "x"
                more.append((x * node.factor + f, y, moved) if along_x else (x, y * node.factor + f, moved))
        found = more
    return [(y * width + x, offset) for x, y, offset in found]


def path(width: int, source: int, target: int) -> list[tuple[int, int]]:
    """Links of the X-Y way."""
    links, here = [], source
    while here != target:
        x, tx = here % width, target % width
        after = here + (1 if tx > x else -1) if tx != x else here + (width if target > here else -width)
        links.append((here, after))
        here = after
    return links


def down(load: Loads, width: int, parent: int, members: list[int], flits: Fraction) -> None:
    for a, b in {link for n in members for link in path(width, parent, n)}:
        load[False, a, b] = load.get((False, a, b), Fraction(0)) + flits
    load[False, -1, parent] = load.get((False, -1, parent), Fraction(0)) + flits
    for n in members:
        load[False, n, -1] = load.get((False, n, -1), Fraction(0)) + flits


def up(load: Loads, width: int, parent: int, members: tuple[int, ...], flits: Fraction) -> None:
    for source, target in reduction_steps(width, members, parent):
        for a, b in [(-1, source), *path(width, source, target), (target, -1)]:
            load[True, a, b] = load.get((True, a, b), Fraction(0)) + flits
