"""The least costs of all that closes outside the first fan-out, and what they drop (rule IB16 of `codesign.mappers.imperfect.joint.outer_walk`)."""

import math
from dataclasses import dataclass

import numpy as np

from codesign.mappers.imperfect.joint.boundaries import Boundaries
from codesign.mappers.imperfect.joint.cells import Cells
from codesign.mappers.imperfect.joint.counts import ceilings
from codesign.mappers.imperfect.joint.least_costs import base_of, room_for_spread
from codesign.mapping.nest import FloatArray, IntArray


@dataclass(frozen=True)
class OuterCosts:
    """The least costs of all that is still to close at the start of a level, and the least over all starts.

    Args:
        level: The level of the first fan-out.
        cells: Its cells with nothing inside.
        value: ``S x N`` least cost to come, infinite where nothing ends.
        least: Least cost of all boundaries counted, with any profile.
        price: ``K`` prices of what is counted.
    """

    level: int
    cells: Cells
    value: FloatArray
    least: float
    price: FloatArray

    def plus(self, weight: float, other: "OuterCosts") -> "OuterCosts":
        """The least sum is at least the sum of the least: costs under these prices and `weight` times the other ones."""
        return OuterCosts(
            self.level, self.cells, self.value + weight * other.value, self.least + weight * other.least,
            self.price + weight * other.price,
        )  # fmt: skip


def drop_hopeless(
    data: Boundaries, closed: FloatArray, output_words: float, cells: Cells, table: FloatArray, limit: FloatArray,
    factor: IntArray, fewest: IntArray, outer: OuterCosts,
) -> int:  # fmt: skip
    """Drop the costs at the start of a level with which what is still to come exceeds the limit; returns how many are left.

    Args:
        closed: ``S x B`` 1 where a boundary is closed in a state of the level.
        table: ``S x N`` costs, changed in place.
        limit: ``S`` costs that matter if every boundary to come cost its least by itself.
        factor: ``L x D`` spatial factors.
        fewest: ``L x D`` tiles that each fan-out needs.
        outer: The least costs to come.
    """
    each = np.zeros(len(data.level))
    base_of(data, outer.price, room_for_spread(factor, fewest, len(data.related)), output_words, each)
    to_come = each.sum() - closed @ each
    numbers = cells.numbers()
    place, known = np.zeros(len(numbers), np.int64), np.ones(len(numbers), bool)
    for d, bound in enumerate(data.bounds):
        at = ceilings(int(bound)).place_of[numbers[:, d]]
        known &= (at >= 0) & (at < outer.cells.size[d])
        place += np.where(known, at, 0) * outer.cells.stride[d]
    cell = np.where(known, outer.cells.cell[np.where(known, place, 0)], -1)
    ahead = np.where(cell >= 0, outer.value[:, cell], 0.0)
    table[table > (limit + to_come)[:, None] - ahead * (1.0 - 1e-9)] = math.inf
    return int(np.isfinite(table).sum())
