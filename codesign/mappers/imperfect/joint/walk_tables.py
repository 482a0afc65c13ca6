"""The tables of a walk over numbers of tiles, its states, and what profiles and their parts are (rules IB8, IB12, IB15)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from codesign.mappers.imperfect.joint.cells import Cells
from codesign.mappers.imperfect.joint.least_costs import Spread
from codesign.mappers.imperfect.joint.walk_kernel import StateTable
from codesign.mapping.nest import FloatArray, IntArray


@dataclass(frozen=True)
class Walk:
    """The tables of one profile, level by level, outermost first; for reading off the nest.

    Args:
        cells: Cells of every level.
        table: Least excess of every cell and state.
        source: Where it came from inside a level.
        entry: Cell of the next level in that it was entered from. All ``S x N``.
    """

    cells: list[Cells]
    table: list[FloatArray]
    source: list[IntArray]
    entry: list[IntArray]

    def add(self, cells: Cells, table: FloatArray, source: IntArray, entry: IntArray) -> None:
        """Put the next level out in front."""
        self.cells.insert(0, cells)
        self.table.insert(0, table)
        self.source.insert(0, source)
        self.entry.insert(0, entry)


@dataclass(frozen=True)
class States:
    """The states of one level: how many boundaries of every tensor are open.

    Args:
        ended: ``T`` boundaries further in than the level's node.
        digit: ``T`` weight of a tensor's count in a state.
        open_of: ``S x T`` open boundaries.
        order: ``S`` states, more open tensors first.
        opens: ``T`` 1 where the next level in keeps the tensor.
    """

    ended: IntArray
    digit: IntArray
    open_of: IntArray
    order: IntArray
    opens: IntArray

    @property
    def table(self) -> StateTable:
        """What compiled walks look up."""
        return StateTable(self.order, self.open_of, self.digit, self.ended + 1)


@dataclass(frozen=True)
class Profile:
    """What every fan-out does, and what follows from that alone.

    Args:
        factor: ``L x D`` spatial factors.
        fewest: ``L x D`` tiles that each needs.
        price: ``K`` prices of every term.
        shared_words: ``L`` output words that the instances of a level hold at most.
        sharing: ``T x L`` what diagonals leave of the words of a fan-out at least.
        each: ``B`` least cost of every boundary.
        base: Their sum and the constant.
    """

    factor: IntArray
    fewest: IntArray
    price: FloatArray
    shared_words: FloatArray
    sharing: FloatArray
    each: FloatArray
    base: float

    @property
    def spread(self) -> Spread:
        """What compiled walks look up."""
        known = np.ones(len(self.factor), np.int64)
        return Spread(self.factor, self.fewest, self.shared_words, self.sharing, known)


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
