"""A plan whose transfers over a mesh take the cycles that the routers need for their packets (rules P7-P9 of `codesign.timing.noc.network`)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.arch.mesh import MeshLinks
from codesign.cost.columns import FILLS, MESH, SHARE, TILE
from codesign.cost.mesh import DOWN, UP, add_loads, busiest, clear, transfer_flits
from codesign.cost.mesh_traffic import crossing, list_children
from codesign.cost.packed import Kernel
from codesign.cost.walk import mac_count
from codesign.mapping.nest import FloatArray, IntArray, Nest
from codesign.timing.derive import EVENTS
from codesign.timing.event_plan import COMPUTE, LOAD, NOTHING, STORE, Plan
from codesign.timing.mapped_plan import MappedPlan
from codesign.timing.noc.network import Groups, TransferTime, time_transfer


@dataclass(frozen=True)
class MeshUse:
    """What crosses one mesh.

    Args:
        level: The level above it.
        bound_cycles: Of the analytical bound: flits of the busiest link or port over the whole run (rule N9).
        shapes: Different transfers that were simulated.
        flit_hops: Of one transfer of each shape.
        simulated_hops: Those that were not skipped as repetitions.
        complete: False where a transfer met the limit of cycles.
    """

    level: str
    bound_cycles: int
    shapes: int
    flit_hops: int
    simulated_hops: int
    complete: bool

    def to_json(self) -> dict[str, object]:
        """The values that commands print as JSON."""
        return dict(vars(self))


def mesh_resource_names(architecture: Architecture) -> tuple[str, ...]:
    """Names of the resources that `with_mesh` adds, in order."""
    found = [level.name for level in architecture.levels if level.fanout.mesh is not None]
    return tuple(f"mesh below {name} {way}" for name in found for way in ("inwards", "outwards"))


def with_mesh(mapped: MappedPlan) -> tuple[Plan, FloatArray, tuple[MeshUse, ...]]:
    """The plan with transfers that hold a mesh until their packets have arrived.

    Args:
        mapped: The plan of a mapping on an architecture of which some fan-outs are meshes.

    Returns:
        The plan with two more resources for each mesh, ``K x A`` cycles that each process takes on meshes, what crosses them.
    """
    plan, role, levels = mapped.plan, mapped.role, mapped.architecture.levels
    more = 2 * sum(level.fanout.mesh is not None for level in levels)  # sides that may be held besides
    duration = plan.duration.copy()
    share = np.pad(plan.share, ((0, 0), (0, 0), (0, 0), (0, more)))
    resource = np.pad(plan.resource, ((0, 0), (0, more)), constant_values=NOTHING)
    least = np.zeros(duration.shape[::2])
    uses, extra = [], plan.resources
    for m, level in enumerate(levels):
        links = level.fanout.mesh
        if links is None:
            continue
        found: list[TransferTime] = []
        for k in range(len(plan.kind)):
            if plan.kind[k] == COMPUTE:
                _stream(mapped, k, m, (duration, share, resource), extra)
                continue
            if plan.kind[k] not in (LOAD, STORE) or role[k, 0] < 0:
                continue
            if crossing(mapped.nest.position, m, int(role[k, 0]))[1] != role[k, 1]:
                continue
            times = _times(mapped, k, m, links)
            side = _free_side(resource[k])
            resource[k, side] = extra + (plan.kind[k] == STORE)
            for way, time in times.items():
                duration[k, 0, way] = max(duration[k, 0, way], time.cycles)
                share[k, 0, way, side] = time.hold
                least[k, way] = max(least[k, way], time.cycles)
                found.append(time)
        different = set(found)
        uses.append(
            MeshUse(
                level.name,
                round(float(mapped.kernel.spent[m, MESH])),
                len(different),
                sum(t.flit_hops for t in different),
                sum(t.simulated_hops for t in different),
                all(t.complete for t in different),
            )
        )
        extra += 2
    return plan._replace(duration=duration, share=share, resource=resource, resources=extra), least, tuple(uses)


def _free_side(sides: Sequence[int] | IntArray) -> int:
    return next(s for s in range(1, len(sides)) if sides[s] == NOTHING)


def _groups(kernel: Kernel, nest: Nest, m: int, t: int, links: MeshLinks, roots: bool) -> Groups:
    """The nodes that share each tile of a tensor; only the first of each where `roots`."""
    child, total = kernel.mesh.child, list_children(kernel, nest, m, t)
    found: dict[int, list[int]] = {}
    for c in range(total):
        key = int(child[0, c]) if links.trees else c
        found.setdefault(key, []).append(int(child[1, c]))
    return tuple(tuple(nodes[:1] if roots else nodes) for nodes in found.values())


def _times(mapped: MappedPlan, k: int, m: int, links: MeshLinks) -> dict[int, TransferTime]:
    """The time of a process's transfers by the way its step is entered (a store: left)."""
    plan, kernel = mapped.plan, mapped.kernel
    t, v = int(mapped.role[k, 0]), int(mapped.role[k, 1])
    up = plan.kind[k] == STORE
    output = t == kernel.coef.shape[0] - 1
    lanes = len(mapped.child_offsets(t, m + 1, v))
    groups = _groups(kernel, mapped.nest, m, t, links, roots=output and not up)
    moved, _ = mapped.moved(v, t)
    found = {}
    for way in range(plan.active.shape[2]):
        if plan.active[k, 0, way] == 0:
            continue
        words = int(kernel.counts[v, t, TILE])
        loop = mapped.loops.get(way - 1)
        if loop is not None and not output and mapped.keeps_tiles(v):
            words = int(moved[loop])
        bits = words * lanes * int(kernel.mesh.bits[m, t])
        flits = -(-bits // (len(links.parents) * links.flit_bits))
        found[way] = time_transfer(links, groups, flits, bool(up))
    return found


def _stream(
    mapped: MappedPlan,
    k: int,
    m: int,
    parts: tuple[FloatArray, FloatArray, IntArray],
    extra: int,
) -> None:
    """Words that cross the mesh while the array works: a step takes at least as long as their busiest link (rule P9)."""
    plan, kernel, nest, machine = mapped.plan, mapped.kernel, mapped.nest, mapped.machine
    duration, share, resource = parts
    mesh = kernel.mesh
    token, n_levels = 0, nest.position.shape[0]
    most = np.zeros(2)
    for together in range(2):  # tensors that fill buffers take turns, words to registers and MACs stream side by side
        clear(mesh)
        for t in range(nest.position.shape[1]):
            outer, inner = crossing(nest.position, m, t)
            streams = inner == n_levels or machine.level_int[inner, EVENTS] == 0
            if outer < 0 or not streams or mesh.turns[inner] == together:
                continue
            down, up = _streamed_words(mapped, m, t, inner)
            total = list_children(kernel, nest, m, t)
            flits = [transfer_flits(mesh, m, t, words, 0.0) for words in (down, up)]
            everyone = t != nest.position.shape[1] - 1
            token, _, _ = add_loads(mesh, m, total, flits[0], flits[1], everyone, token)
            if together == 0:
                most += [busiest(mesh, m, way) for way in (DOWN, UP)]
                clear(mesh)
        if together == 1:
            most += [busiest(mesh, m, way) for way in (DOWN, UP)]
    steps = float(np.prod(plan.factors[0]))
    for way in range(2):
        cycles = float(np.ceil(most[way] / steps - 1e-9))
        if cycles > 0.0:
            side = _free_side(resource[k])
            resource[k, side] = extra + way
            share[k, 0, :, side] = cycles
            duration[k, 0] = np.where(plan.active[k, 0] == 1, np.maximum(duration[k, 0], cycles), duration[k, 0])


def _streamed_words(mapped: MappedPlan, m: int, t: int, inner: int) -> tuple[float, float]:
    """Elements of a tensor that a child of level m gets, and gives, over the run."""
    kernel, position = mapped.kernel, mapped.nest.position
    output = t == position.shape[1] - 1
    work = float(mac_count(kernel)) / float(np.prod(kernel.use[:, 2]))
    down, up = (0.0, work) if output else (work, 0.0)
    if inner < position.shape[0]:
        down = float(kernel.counts[inner, t, FILLS])
        up = down + float(kernel.use[inner, SHARE]) if output else 0.0
    lanes = len(mapped.child_offsets(t, m + 1, inner))
    return down * lanes, up * lanes
