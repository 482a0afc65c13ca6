"""What zeros of one tensor save on another: leader-follower intersection (laws A1-A7).

* A5, Spatial skipping: the children below a level that would hold only zeros of a leader get other work. The leader
  needs a format there. A mapping may then use more children than there are, by the expected share that is empty.
* A6, Position skipping: the non-zeros of a tile are packed into as few steps of the array as they need, `ceil(non-
  `ceil(non-zeros / lanes)`. Lanes are the product of the spatial loops over the tensor. Every other tensor of that level is
  read once per step. The array is busy by the mean of `non-zeros / (lanes x steps)`.
* A7: Two tensors that both know where their non-zeros are (D4-D6) meet more or less often than by chance: by the mean
  of the product of their profiles along shared dimensions, or as counted on two masks. It applies where a leader's
  tile is one element, and to the MACs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from codesign.arch.sparsity import TensorFormat, ZeroAction, ZeroKind
from codesign.core.errors import UserError
from codesign.cost.arrays import may_keep
from codesign.cost.sparse.nest_view import Loop, NestView, Place, region
from codesign.mapping.mapping import Spatial, Temporal
from codesign.workloads.computation import Computation, Tensor
from codesign.workloads.density import DENSE, Actual, Extents


@dataclass(frozen=True)
class Saving:
    """What one action saves.

    Args:
        kind: How.
        place: Where the follower is read from.
        leaders: The leaders, each with the tile whose emptiness decides.
        kept: Chance that an access remains (not all leader tiles are empty... each must hold something).
    """

    kind: ZeroKind
    place: Place
    leaders: tuple[tuple[Tensor, Extents], ...]
    kept: float


@dataclass(frozen=True)
class Positions:
    """A tensor whose tile is packed into steps of the array (law A6).

    Args:
        place: Where the tile stands.
        steps: Expected steps as a fraction of those a dense tile takes.
        busy: Expected fraction of the lanes in use in a step.
    """

    place: Place
    steps: float
    busy: float


def named(computation: Computation, name: str) -> tuple[Tensor, ...]:
    """The tensors a name or role stands for."""
    return tuple(t for t in computation.tensors if may_keep(frozenset({name}), t))


def level_formats(view: NestView) -> dict[tuple[int, str], TensorFormat]:
    """The format of every stored tensor that has one, by level and tensor.

    Raises:
        UserError: A level has a format for a tensor it may not keep.
    """
    found: dict[tuple[int, str], TensorFormat] = {}
    for v, level in enumerate(view.architecture.levels):
        for kept in level.sparsity.formats:
            for tensor in named(view.computation, kept.tensor):
                if not may_keep(level.keep, tensor):
                    raise UserError(
                        f"level {level.name!r} has a format for {tensor.name!r}, which it may not keep",
                        where=f"architecture {view.architecture.name!r}",
                        hint="give the format at a level that keeps the tensor",
                    )
                if (v, tensor.name) in view.places and not (kept.where_zeros and tensor.density == DENSE):
                    found[v, tensor.name] = kept
    return found


def leader_tile(view: NestView, place: Place, leader: Tensor) -> Extents:
    """What of a leader one access of the follower meets before the follower's data are fetched again (law A2)."""
    follower = place.tensor
    met: list[Loop] = list(view.loops[place.stop :])
    still = place.child is not None
    for loop in reversed(view.own(place)):
        if isinstance(loop, Spatial):
            if loop.dim not in follower.dims:
                met.append(loop)
        elif still:
            still = loop.dim not in follower.dims
            if still:
                met.append(loop)
    return region(leader, met)


def _actions(view: NestView, *kinds: ZeroKind) -> Iterator[tuple[int, ZeroAction, Tensor]]:
    """The actions of some kinds, each with its level and each of its followers, from the outermost level in."""
    for v, level in enumerate(view.architecture.levels):
        for action in level.sparsity.actions:
            if action.kind in kinds:
                for follower in named(view.computation, action.follower):
                    yield v, action, follower


def savings(view: NestView) -> dict[tuple[int, str], Saving]:
    """What gating and skipping save under a mapping, by level and follower: the best action of each (laws A1-A3)."""
    best: dict[tuple[int, str], Saving] = {}
    for v, action, follower in _actions(view, ZeroKind.GATE, ZeroKind.SKIP):
        saving = _saving(view, v, action, follower)
        key = saving.place.level, follower.name
        if key not in best or saving.kept < best[key].kept:
            best[key] = saving
    return best


def _saving(view: NestView, level: int, action: ZeroAction, follower: Tensor) -> Saving:
    place = view.at(level, follower)
    leaders = tuple(
        (leader, leader_tile(view, place, leader))
        for name in action.leaders
        for leader in named(view.computation, name)
        if leader != follower
    )
    kept = math.prod(1.0 - t.density.empty(tile, view.whole(t)) for t, tile in leaders)
    scalars = [t for t, tile in leaders if math.prod(tile) == 1]
    return Saving(action.kind, place, leaders, kept * correlation(view.computation, scalars))


def spatial_savings(view: NestView, formats: dict[tuple[int, str], TensorFormat]) -> dict[tuple[int, str], float]:
    """Fraction of a level's children that keep work, by level and follower (law A5)."""
    found: dict[tuple[int, str], float] = {}
    for v, action, follower in _actions(view, ZeroKind.SKIP_SPATIAL):
        leaders = [leader for name in action.leaders for leader in named(view.computation, name)]
        known = [leader for leader in leaders if (view.at(v, leader).level, leader.name) in formats]
        found[v, follower.name] = math.prod((_children_kept(view, v, leader) for leader in known), start=1.0)
    return found


def _children_kept(view: NestView, level: int, leader: Tensor) -> float:
    """Chance that the leader's tile of the innermost spatial loop that cuts it holds something."""
    name = view.architecture.levels[level].name
    cuts = [i for i, x in enumerate(view.loops) if isinstance(x, Spatial) and x.level == name and x.dim in leader.dims]
    if not cuts:
        return 1.0
    return 1.0 - leader.density.empty(region(leader, view.loops[cuts[-1] + 1 :]), view.whole(leader))


def packed_positions(view: NestView) -> dict[str, Positions]:
    """Tensors whose tiles are packed into steps, by name (law A6)."""
    return {t.name: _positions(view, view.at(v, t)) for v, _, t in _actions(view, ZeroKind.SKIP_POSITIONS)}


def _positions(view: NestView, place: Place) -> Positions:
    inner = [x for x in view.inner(place) if x.dim in place.tensor.dims]
    lanes = math.prod(x.factor for x in inner if isinstance(x, Spatial))
    steps = math.prod(x.factor for x in inner if isinstance(x, Temporal))
    held = place.tensor.density.occupancy(view.tile(place), view.whole(place.tensor))
    taken = np.ceil(held.nonzeros / lanes)
    some = taken > 0
    chance = float(held.probability[some].sum())
    busy = held.nonzeros[some] / (lanes * taken[some])
    return Positions(
        place,
        steps=held.expected(taken) / steps,
        busy=float(held.probability[some] @ busy) / chance if chance else 1.0,
    )


def correlation(computation: Computation, tensors: Sequence[Tensor]) -> float:
    """How much more often than by chance elements of these tensors are non-zero together (law A7).

    1 where at most one of them knows where its non-zeros are.
    """
    known = [t for t in tensors if not t.density.independent]
    if len(known) < 2:
        return 1.0
    wholes = {t.name: t.shape(computation.sizes) for t in known}
    chance = math.prod(t.density.fraction(wholes[t.name]) for t in known)
    if chance == 0.0:
        return 1.0
    plain = all(len(axis.terms) == 1 for t in known for axis in t.axes)
    if plain and all(isinstance(t.density, Actual) for t in known):
        return _together(computation, known) / chance
    ratio = 1.0
    for dim in computation.dims:
        profiles = [
            t.density.along(a, wholes[t.name]) / t.density.fraction(wholes[t.name])
            for t in known
            for a, axis in enumerate(t.axes)
            if axis.terms == ((dim, 1),)
        ]
        if len(profiles) > 1:
            ratio *= float(np.prod(profiles, axis=0).mean())
    return ratio


def _together(computation: Computation, tensors: Sequence[Tensor]) -> float:
    """Fraction of the iterations over their dimensions at which all masks are set."""
    letters = {d: chr(ord("a") + i) for i, d in enumerate(computation.dims)}
    names = ["".join(letters[axis.terms[0][0]] for axis in t.axes) for t in tensors]
    masks = [t.density.mask.astype(np.float64) for t in tensors if isinstance(t.density, Actual)]
    dims = {d for t in tensors for d in t.dims}
    return float(np.einsum(f"{','.join(names)}->", *masks)) / math.prod(computation.sizes[d] for d in dims)
