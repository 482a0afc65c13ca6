"""What is known of a tensor whose windows slide (P9 to P13).

A *run* is a loop along a sliding axis that the walk stands in; a *chain* is what steps of later loops may still save once the
innermost loop has moved the window (rule R2).

* P9, Fresh nodes: While a node is *fresh* the walk takes no loop, unless the tensor pays whole tiles or begins a run.
  One tensor may slide.
* P10, Runs: A *run* is one loop of f over a dimension of a sliding axis. Fresh nodes pay (iterations outside) x
  (whole tile + (f - 1) x new words).
* P11, Chains: Steps of later loops may repeat the innermost step (R2, R4 `timeloop`). The state holds the travel of
  the first loop and the sum since; a run that repeats takes words off. Three chains are followed; of others the most
  that may be saved is taken off.
* P12, Loops met before: Chains whose later steps seem not to move the tile begin only after a loop that does not
  index the tensor, which the state says.
* P13: No sequence of loops gets below B1: checked on 4,000 random axes; a test repeats part.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise, product
from typing import NamedTuple

from codesign.mappers.exact.uneven.segments import Action, Chain, Column, Run, Segment, Share, Slide, Status, parents

MOST_CHAINS = 3
"""Chains that are followed at a time; what further ones may save at most is taken off at once."""

Entries = tuple[int, ...]
"""Position of the temporal size of every dimension of an axis."""


class AxisDim(NamedTuple):
    """A dimension of a sliding axis.

    Args:
        dim: Its number.
        coefficient: On the axis.
        sizes: Its temporal sizes.
    """

    dim: int
    coefficient: int
    sizes: tuple[int, ...]


def _larger(sizes: tuple[int, ...], entry: int) -> list[tuple[int, int]]:
    """What one loop may make of a size: positions and sizes."""
    size = sizes[entry]
    return [(e, larger) for e, larger in enumerate(sizes) if larger > size and larger % size == 0]


@dataclass(frozen=True)
class Windows:
    """A sliding tensor under one profile.

    Args:
        tensor: Its index.
        column: Its decisions.
        relevant: Whether each dimension indexes it.
        axes: Its sliding axes.
        inside: For each segment, innermost first, the product of the spatial factors inside it by axis and dimension.
        held: For each level the same product inside that level's node.
        others: Dimensions that do not index the tensor, with their temporal sizes.
    """

    tensor: int
    column: Column
    relevant: tuple[bool, ...]
    axes: tuple[tuple[AxisDim, ...], ...]
    inside: tuple[tuple[tuple[int, ...], ...], ...]
    held: tuple[tuple[tuple[int, ...], ...], ...]
    others: tuple[tuple[int, tuple[int, ...]], ...]

    def mask(self, status: Status) -> tuple[bool, ...]:
        """The loops that may stand next."""
        if status.run is not None:
            return tuple(d == status.run.dim for d in range(len(self.relevant)))
        if status.meeting is not None:
            return tuple(d == status.meeting[0] for d in range(len(self.relevant)))
        if status.fresh:
            return (False,) * len(self.relevant)
        if status.unpaid or status.chains:
            return tuple(not r for r in self.relevant)
        return (True,) * len(self.relevant)

    def moves(self, i: int, segment: Segment, at: Status) -> Iterator[tuple[Action, Status]]:
        """What may be done next in segment `i`, and what is known then."""
        t = self.tensor
        if at.run is not None:
            yield from self._end_run(i, at, at.run)
            return
        if at.unpaid and at.meeting is None:
            chain = (*at.unpaid, at.parent)
            yield Action(t, pays=tuple(pairwise(chain))), Status((), at.parent, chains=at.chains)
        if at.chains and at.meeting is None:
            yield Action(t), Status(at.unpaid, at.parent, fresh=at.fresh)
        if at.meeting is not None:
            yield from self._met(at, *at.meeting)
            return
        if at.fresh:
            yield Action(t), Status(at.unpaid, at.parent, chains=at.chains)
        if at.unpaid and not at.met and self._meeting_matters(i):
            for d, sizes in self.others:
                for entry in range(len(sizes)):
                    meeting = Status(at.unpaid, at.parent, chains=at.chains, meeting=(d, entry))
                    yield Action(t, only=((d, entry),)), meeting
        if at.parent >= segment.first:
            for q in parents(self.column, at.parent):
                after = Status((*at.unpaid, at.parent), q, fresh=at.fresh + 1, chains=at.chains, met=at.met)
                yield Action(t, places=(at.parent,)), after
        for a, axis in enumerate(self.axes):
            for k in range(len(axis)):
                for origin in product(*(range(len(d.sizes)) for d in axis)):
                    yield from self._start_run(i, at, a, k, origin)

    def stands(self, status: Status) -> tuple[tuple[int, int, bool], ...]:
        """Where the walk may stand: (dimension, position of its size, whether it may be larger)."""
        found = []
        if status.meeting is not None:
            found.append((*status.meeting, True))
        if status.run is not None:
            for k, (d, entry) in enumerate(self._only(status.run.axis, status.run.origin)):
                found.append((d, entry, k == status.run.which))
        else:
            for chain in status.chains:
                found += [(d, entry, False) for d, entry in self._only(chain.axis, chain.now)]
        return tuple(found)

    def least_shares(self, i: int, level: int, a: int) -> dict[Entries, float]:
        """Of the words of whole tiles, what windows leave at least at a level of segment `i`, by the sizes on an axis where its node stands (P14)."""
        axis, found = self.axes[a], {}
        for origin in product(*(range(len(d.sizes)) for d in axis)):
            extent, least = self._overlap(level, a, origin, 0), 1.0
            for k, d in enumerate(axis):
                size, outer = d.sizes[origin[k]], _larger(d.sizes, origin[k])
                if outer:
                    least = min(least, self._travel(i, a, k, origin) / extent)
                for j in range(i, len(self.inside)):
                    travel = self._travel(j, a, k, origin)
                    for e, larger in outer:
                        saved = self._most(j, a, (*origin[:k], e, *origin[k + 1 :]), travel)
                        least = min(least, 1.0 - saved * size / larger)
            found[origin] = least
        return found

    # ---- loops that do not move the window ---------------------------------------------------------

    def _met(self, at: Status, d: int, entry: int) -> Iterator[tuple[Action, Status]]:
        """The first loop outside unpaid nodes has been one that does not index the tensor."""
        for e, _ in _larger(dict(self.others)[d], entry):
            yield Action(self.tensor, only=((d, e),)), Status(at.unpaid, at.parent, chains=at.chains, met=True)

    def _meeting_matters(self, i: int) -> bool:
        """Whether loops from segment `i` on may save words of nodes whose innermost loop does not move the window."""
        return any(self._repeats[i:])

    @cached_property
    def _repeats(self) -> tuple[bool, ...]:
        return tuple(
            any(
                self._may_follow(i, a, k, origin, 0, self._travel(i, a, k, origin))
                for a, axis in enumerate(self.axes)
                for k in range(len(axis))
                for origin in product(*(range(len(d.sizes)) for d in axis))
            )
            for i in range(len(self.inside))
        )

    # ---- runs ----------------------------------------------------------------------------------

    def _start_run(self, i: int, at: Status, a: int, k: int, origin: Entries) -> Iterator[tuple[Action, Status]]:
        axis = self.axes[a]
        if origin[k] + 1 == len(axis[k].sizes):
            return
        if any(c.axis == a and c.now != origin for c in at.chains):
            return  # the walk cannot stand there
        chains = tuple(c for c in at.chains if c.axis == a)
        cut = len(at.unpaid) - at.fresh
        levels = (*at.unpaid, at.parent)
        touched, fresh = tuple(pairwise(levels[: cut + 1])), at.unpaid[cut:]
        travel = self._travel(i, a, k, origin)
        if not (
            chains
            or any(self._overlap(u, a, origin, travel) > 0 for u in fresh)
            or (touched and at.met and self._may_follow(i, a, k, origin, 0, travel))
        ):
            return
        shares = tuple(Share(-1.0, c) for c in chains if c.wanted == travel)
        action = Action(self.tensor, pays=touched, shares=shares, only=self._only(a, origin))
        run = Run(a, origin, k, axis[k].dim, travel, touched if at.met else ())
        yield action, Status(fresh, at.parent, fresh=len(fresh), chains=chains, run=run)

    def _end_run(self, i: int, at: Status, run: Run) -> Iterator[tuple[Action, Status]]:
        axis, k = self.axes[run.axis], run.which
        fresh = tuple(pairwise((*at.unpaid, at.parent)))
        slides = tuple(Slide(u, p, run) for u, p in fresh)
        shares = tuple(Share(1.0, c) for c in at.chains if c.wanted == run.travel)
        done = Status((), at.parent)
        yield Action(self.tensor, slides=slides, shares=shares), done
        for entry, _ in _larger(axis[k].sizes, run.origin[k]):
            now = (*run.origin[:k], entry, *run.origin[k + 1 :])
            begun = [Chain(fresh, run.axis, run.origin, run.travel, run.travel, now)] if fresh else []
            begun += [Chain(run.touched, run.axis, run.origin, 0, run.travel, now)] if run.touched else []
            begun += [c._replace(shift=c.shift + run.travel, now=now) for c in at.chains]
            worth = [(c, self._most(i, run.axis, now, c.wanted)) for c in begun]
            alive = [(c, most) for c, most in worth if most > 0.0 and self._saves(c)]
            if alive:
                given_up = tuple(Share(-most, c) for c, most in alive[MOST_CHAINS:])
                action = Action(self.tensor, slides=slides, shares=(*shares, *given_up), only=((axis[k].dim, entry),))
                yield action, Status((), at.parent, chains=tuple(c for c, _ in alive[:MOST_CHAINS]))

    def _only(self, a: int, entries: Entries) -> tuple[tuple[int, int], ...]:
        return tuple((d.dim, e) for d, e in zip(self.axes[a], entries, strict=True))

    # ---- distances -----------------------------------------------------------------------------

    def _travel(self, i: int, a: int, k: int, entries: Entries) -> int:
        """How far a loop of segment `i` moves the window."""
        d = self.axes[a][k]
        return d.coefficient * d.sizes[entries[k]] * self.inside[i][a][k]

    def _overlap(self, level: int, a: int, origin: Entries, travel: int) -> int:
        extent = 1
        for k, d in enumerate(self.axes[a]):
            extent += d.coefficient * (d.sizes[origin[k]] * self.held[level][a][k] - 1)
        return max(0, extent - travel)

    def _saves(self, chain: Chain) -> bool:
        return chain.first == 0 or any(
            self._overlap(u, chain.axis, chain.origin, chain.first) > 0 for u, _ in chain.pairs
        )

    def _may_follow(self, i: int, a: int, k: int, origin: Entries, first: int, travel: int) -> bool:
        """Whether some loop may save words after a first run."""
        return any(
            self._most(i, a, (*origin[:k], e, *origin[k + 1 :]), first + travel) > 0.0
            for e, _ in _larger(self.axes[a][k].sizes, origin[k])
        )

    def _most(self, i: int, a: int, entries: Entries, wanted: int) -> float:
        """Most iterations, as a share of those left, whose steps repeat the first one: over all sequences of loops along the axis."""
        key = i, a, entries, wanted
        if key not in self._known:
            best = self._most(i + 1, a, entries, wanted) if i + 1 < len(self.inside) else 0.0
            for k, d in enumerate(self.axes[a]):
                size, travel = d.sizes[entries[k]], self._travel(i, a, k, entries)
                for e, larger in _larger(d.sizes, entries[k]):
                    share = size / larger
                    saved = 1.0 - share if travel == wanted else 0.0
                    further = self._most(i, a, (*entries[:k], e, *entries[k + 1 :]), wanted + travel)
                    best = max(best, saved + share * further)
            self._known[key] = best
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[int, int, Entries, int], float]:
        return {}


windows_of = lru_cache(maxsize=4096)(Windows)
"""The same value again for profiles that are alike in it, with what it has worked out."""
