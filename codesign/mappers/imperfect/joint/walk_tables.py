"""The tables of a walk over numbers of tiles, and what profiles and their parts are (rules IB8, IB12, IB15)."""

from dataclasses import dataclass
from typing import NamedTuple

from codesign.mappers.imperfect.joint.cells import Cells
from codesign.mappers.imperfect.joint.least_costs import Spread
from codesign.mapping.nest import FloatArray, IntArray


@dataclass(frozen=True)
class Walk:
    """The tables of one profile, level by level, outermost first; for reading off the nest.

    Args:
        cells: Cells of every level.
        source: Where it came from inside a level.
        entry: Cell of the next level in that it was entered from. All ``S x N``.
    """

    cells: list[Cells]
    source: list[IntArray]
    entry: list[IntArray]

    def add(self, cells: Cells, source: IntArray, entry: IntArray) -> None:
        """Put the next level out in front."""
        self.cells.insert(0, cells)
        self.source.insert(0, source)
        self.entry.insert(0, entry)


@dataclass(frozen=True)
class Profile:
    """What every fan-out does, and what follows from that alone.

    Args:
        spread: That.
        price: ``K`` prices of every term.
        each: ``B`` least cost of every boundary.
        base: Their sum and the constant.
    """

    spread: Spread
    price: FloatArray
    each: FloatArray
    base: float


class Cut(NamedTuple):
    """A condition on the mappings of a part (rule IB15).

    Args:
        level: Whose tile it is about.
        dim: Along which dimension.
        number: Tiles of the level along it, outside.
        equal: Whether there are so many, or any other number.
    """

    level: int
    dim: int
    number: int
    equal: bool
