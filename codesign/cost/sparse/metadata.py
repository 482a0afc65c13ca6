"""What a format writes beside the values: entries per rank of a tile (laws F1-F6).

* F1: Ranks take the loops between a level and its child that index the tensor, one each; a rank that names dimensions
  takes all neighbouring loops over those. The child's ranks are the parent's innermost ones. Ranks are handed out
  from the inner or the outer end; one left over costs nothing. A *flat* format has one rank.
* F6: The innermost rank's payload is the values, no metadata. A compressed tile keeps its non-zeros only. Metadata
  move once for every round the tile is read, filled or updated (dense accesses over dense words), rounded up to whole
  entries.
* F7: An entry takes the least width of at least its own that divides a word of the metadata store: 3 bits take 4 of
  64.
* F8: All counts of an instance that stores a tensor in a format are per tile that holds something; with an empty tile
  it is idle.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from codesign.arch.sparsity import Rank, RankFormat, TensorFormat
from codesign.core.errors import UserError
from codesign.cost.sparse.nest_view import Loop, NestView, Place, region
from codesign.workloads.density import Extents


@dataclass(frozen=True)
class RankUnits:
    """Expected entries of one rank in one tile.

    Args:
        rank: Its format.
        metadata: Coordinates, run lengths or bits.
        payload: Pointers to the rank below; 0 in the innermost rank, whose payload is the values.
    """

    rank: Rank
    metadata: float
    payload: float

    def bits(self, width: int, word: int | None) -> float:
        """Bits they take (law F7).

        Args:
            width: Of an entry whose rank names none.
            word: Width of the metadata store; entries do not straddle its words. None packs them.
        """
        own = self.rank.format.entry_bits or width
        metadata = own if self.rank.metadata_bits is None else self.rank.metadata_bits
        return self.metadata * aligned(metadata, word) + self.payload * aligned(self.rank.payload_bits or 0, word)


RankLoops = tuple[Loop, ...]


def aligned(bits: int, word: int | None) -> int:
    """The least width of at least `bits` that divides a word (law F7)."""
    if word is None or bits == 0 or bits > word:
        return bits
    return next(width for width in range(bits, word + 1) if word % width == 0)


def rank_loops(view: NestView, place: Place, formats: dict[tuple[int, str], TensorFormat]) -> tuple[RankLoops, ...]:
    """The loops each rank of a stored tensor stands for, innermost rank first (law F1).

    A level that holds a compressed tensor holds it cut into its child's tiles, in the child's ranks; its own further ranks take
    its own loops.

    Args:
        view: The mapping.
        place: The stored tensor, with a format.
        formats: By level and tensor.

    Raises:
        UserError: The format has too few ranks for the mapping.
    """
    tensor = place.tensor
    kept = formats[place.level, tensor.name]
    if kept.flat:
        return (tuple(x for x in view.inner(place) if x.dim in tensor.dims),)
    below: tuple[RankLoops, ...] = ()
    loops = [x for x in view.own(place) if x.dim in tensor.dims]
    child = None if place.child is None else view.places[place.child, tensor.name]
    if child is not None and math.prod(view.tile(child)) > 1:
        inner = tuple(x for x in view.inner(child) if x.dim in tensor.dims)
        below = rank_loops(view, child, formats) if (child.level, tensor.name) in formats else (inner,)
    ranks = tuple(reversed(kept.ranks))
    where = f"level {view.architecture.levels[place.level].name!r}"
    if len(below) > len(ranks):
        raise UserError(
            f"the format of {tensor.name} has {len(ranks)} ranks, its child's tiles have {len(below)}", where=where
        )
    free = ranks[len(below) :]
    given = _assign(free, loops[::-1]) if kept.inner_to_outer else _assign(free[::-1], loops)[::-1]
    if sum(len(x) for x in given) < len(loops):
        raise UserError(
            f"the format of {tensor.name} has {len(ranks)} ranks, the mapping needs more",
            where=where,
            hint="add a rank, or flatten several dimensions into one",
        )
    return below + tuple(given)


def _assign(ranks: Sequence[Rank], loops: Sequence[Loop]) -> list[RankLoops]:
    """Loops for ranks, both in the same direction; a rank that names dimensions takes only loops over those."""
    given: list[RankLoops] = []
    at = 0
    for rank in ranks:
        taken: list[Loop] = []
        if not rank.dims:
            taken.extend(loops[at : at + 1])
        while rank.dims and at + len(taken) < len(loops) and loops[at + len(taken)].dim in rank.dims:
            taken.append(loops[at + len(taken)])
        at += len(taken)
        given.append(tuple(taken))
    return given


def tile_units(view: NestView, place: Place, formats: dict[tuple[int, str], TensorFormat]) -> tuple[RankUnits, ...]:
    """Expected entries per rank of a tile that is not empty, innermost rank first (laws F2-F6).

    Raises:
        UserError: The format has too few ranks for the mapping.
    """
    tensor, whole = place.tensor, view.whole(place.tensor)
    kept = formats[place.level, tensor.name]
    ranks = tuple(reversed(kept.ranks))
    given = rank_loops(view, place, formats)
    shapes = [math.prod(region(tensor, loops)) for loops in given]
    within = [[x for loops in given[:r] for x in loops] for r in range(len(given) + 1)]
    regions: list[Extents] = [region(tensor, loops) for loops in within]
    full = [1.0 - tensor.density.empty(tile, whole) for tile in regions]
    if full[-1] == 0.0:
        return tuple(RankUnits(rank, 0.0, 0.0) for rank in ranks)
    units = []
    for r, rank in enumerate(ranks):
        left_over = r > 0 or (len(ranks) > 1 and not kept.inner_to_outer)
        if shapes[r] == 1 and left_over:
            units.append(RankUnits(rank, 0.0, 0.0))
            continue
        fibres = math.prod(shapes[r + 1 :])
        metadata, payload = _entries(rank.format, fibres, shapes[r], full[r + 1], full[r])
        units.append(RankUnits(rank, metadata / full[-1], 0.0 if r == 0 else payload / full[-1]))
    return tuple(units)


def _entries(
    kind: RankFormat, fibres: int, shape: int, fibre_full: float, coordinate_full: float
) -> tuple[float, float]:
    """Metadata and payload entries of a rank: `fibres` of `shape` coordinates, with the chances that they hold something."""
    held = fibres * shape * coordinate_full
    if kind is RankFormat.OFFSETS:
        return 0.0, float(fibres * (shape + 1))
    if kind in (RankFormat.FLAT_BITMASK, RankFormat.PLAIN_BITMASK):
        return float(fibres * shape), float(fibres * shape)
    if kind is RankFormat.BITMASK:
        pointers = math.ceil(shape * coordinate_full / fibre_full - 1e-9) if fibre_full else 0
        return fibres * fibre_full * shape, fibres * fibre_full * pointers
    return held, held
