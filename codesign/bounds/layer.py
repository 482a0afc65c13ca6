"""What bounds need to know of one computation: how it may be spread over an array, and what reuse a small memory allows.

Everything here is independent of prices, so one table serves all designs.

* LB1, Spatial splits: Dimensions that index the same tensors count as one of their product. A split gives each a
  divisor of its bound; its product U fits x by y if U = p q, p <= x, q <= y.
* LB2, Different words: Children want at least the product of the factors that index a tensor, 1 + sum (f - 1) for
  dimensions that share an axis; steps of a window may leave gaps, so they may also want the product.
* LB3, An array under a buffer: Each split gives M / U cycles. A tensor not kept in a child is sent at the MACs'
  rate, a kept one at least once. A single child is reached without a hop.
* LB4, A child that keeps all three tensors: The loop directly outside moves two of them a tile a step: two of 1/(k
  taps), 1/a and 1/c words per MAC enter.
* LB5, DRAM: The exact mapper finds the least words moved and read with DRAM alone priced; private memories count as
  one pool. Words between the steps of a stride may be left out; such layers count every word once.
* LB6, Sum: Choices of LB3 and LB4 are rows of eight numbers. Energy and cycles are minima over the undominated
  rows, for all prices at once. Latency is the slower of array and DRAM, layer by layer.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.bounds.array_choices import undominated_choices
from codesign.core.factors import divisors
from codesign.core.kept import kept
from codesign.workloads.computation import Computation, Role
from codesign.workloads.touched import touched_words

Floats = NDArray[np.float64]


def undominated(rows: Floats) -> Floats:
    """The distinct rows that no other row is below in every column: ``n x c`` to ``k x c``."""
    from moocore import is_nondominated

    if len(rows) < 2:
        return rows
    kept: Floats = rows[is_nondominated(rows, keep_weakly=False)]
    return kept


@final
@dataclass(frozen=True)
class Spread:
    """How equal dimensions are taken together, and what the array can be split into.

    Args:
        bounds: Of every class of dimensions.
        relevant: Which class indexes which tensor: ``T x C``.
        sliding: For every axis with several classes: (tensor, classes on it); alone on no other axis.
    """

    bounds: tuple[int, ...]
    relevant: NDArray[np.bool_]
    sliding: tuple[tuple[int, tuple[int, ...]], ...]


@final
class LayerFacts:
    """Tables of one computation, filled when first asked for.

    Args:
        computation: Any; tables of reuse in a small memory need two inputs.
    """

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.tensors = computation.tensors
        self.macs = float(computation.macs)
        self.words = np.array([touched_words(computation, t) for t in self.tensors], dtype=np.float64)
        self.bits = np.array([t.partial_bits if t.is_output else t.bits for t in self.tensors], dtype=np.float64)

    @cached_property
    def spread(self) -> Spread:
        """Dimensions that index the same tensors, each alone on its axis, count as one of their product (rule LB1)."""
        sizes = self.computation.sizes
        windows = {
            d for t in self.tensors for axis in t.axes for d, _ in axis.terms if len([1 for e, _ in axis.terms if sizes[e] > 1]) > 1
        }  # fmt: skip
        classes: dict[object, list[str]] = {}
        for dim in (d for d in self.computation.dims if sizes[d] > 1):
            key = dim if dim in windows else tuple(dim in t.dims for t in self.tensors)
            classes.setdefault(key, []).append(dim)
        columns = list(classes.values())
        where = {d: k for k, column in enumerate(columns) for d in column}
        sliding = []
        for position, tensor in enumerate(self.tensors):
            for axis in tensor.axes:
                on = tuple(where[d] for d, _ in axis.terms if sizes[d] > 1)
                if len(on) > 1:
                    sliding.append((position, on))
        relevant = np.array([[any(d in t.dims for d in c) for c in columns] for t in self.tensors], dtype=np.bool_)
        bounds = tuple(math.prod(sizes[d] for d in c) for c in columns)
        return Spread(bounds, relevant.reshape(len(self.tensors), len(columns)), tuple(sliding))

    def most_parallel(self, x: int, y: int) -> float:
        """Most MACs that any spatial split keeps busy on an array of x by y."""
        return float(self.splits(x, y)[:, 0].max())

    def splits(self, x: int, y: int) -> Floats:
        """Children in use, and the least and the most different words wanted per tensor, of the splits that may be best on x by y.

        A split gives every dimension a divisor of its bound. It fits if the product U has a divisor p with p <= x and
        U / p <= y, which every placement along the two axes has (rule LB1). Where dimensions share an axis, the different words are at
        least 1 + sum (f - 1), the size of a sum of sets, and at most the product of all f (rule LB2).

        Returns:
            ``n x (1 + 2 T)``.
        """
        return self._splits(min(x, y), max(x, y))

    @kept
    def _splits(self, x: int, y: int) -> Floats:
        spread = self.spread
        grid, used = np.ones((1, 0)), np.ones(1)
        for bound in spread.bounds:
            factors = np.array([v for v in divisors(bound) if v <= x * y], dtype=np.float64)
            i, j = np.nonzero(used[:, None] * factors <= x * y)
            grid, used = np.hstack([grid[i], factors[j][:, None]]), used[i] * factors[j]
        fitting = _products_that_fit(x, y)[used.astype(np.int64)]
        grid, used = grid[fitting], used[fitting]
        wanted = [np.prod(np.where(r, grid, 1.0), axis=1) for r in spread.relevant]
        most = np.stack(wanted, axis=1)
        for tensor, classes in spread.sliding:
            together = grid[:, list(classes)]
            wanted[tensor] = wanted[tensor] / together.prod(axis=1) * (1.0 + (together - 1.0).sum(axis=1))
        rows = np.unique(np.hstack([np.stack([used, *wanted], axis=1), most]), axis=0)
        tensors = len(self.tensors)
        shares = np.hstack(
            [1.0 / rows[:, :1], rows[:, 1 : 1 + tensors] / rows[:, :1], rows[:, :1] / rows[:, 1 + tensors :]]
        )
        from moocore import is_nondominated

        kept: Floats = rows[is_nondominated(shares, keep_weakly=False)] if len(rows) > 1 else rows
        return kept

    # ---- reuse in a memory that keeps everything -------------------------------------------------

    @cached_property
    def _tiles(self) -> tuple[int, int, int, float] | None:
        """Bounds of the dimensions that do not index first input, second input, output, and the taps of a window.

        None where the argument of rule LB4 does not hold: not two inputs, or windows on another tensor than one input.
        """
        if len(self.tensors) != 3:
            return None
        windowed = {tensor for tensor, _ in self.spread.sliding}
        if len(windowed) > 1 or 2 in windowed:
            return None
        first = windowed.pop() if windowed else self._input_position()
        second = 1 - first
        sizes = self.computation.sizes
        free = [math.prod(sizes[d] for d in self.computation.dims if d not in t.dims) for t in self.tensors]
        sliding = {d for axis in self.tensors[first].axes if len(axis.terms) > 1 for d, _ in axis.terms}
        taps = math.prod(sizes[d] for d in sliding & self.tensors[second].dims)
        self._order = (first, second, 2)
        return free[first], free[second], free[2], float(taps)

    def _input_position(self) -> int:
        return 1 if self.tensors[1].role is Role.INPUT and self.tensors[0].role is not Role.INPUT else 0

    @kept
    def reuse(self, capacity_bits: int) -> Floats | None:
        """Words per MAC that enter a memory that keeps all three tensors: ``k x 3``, the options that may be best (rule LB4).

        One tensor waits on the loop directly outside, the two others move a tile a step.
        """
        if self._tiles is None:
            return None
        k_all, a_all, c_all, taps = self._tiles
        first, second, out = self._order
        bits_in, bits_weight, bits_out = self.bits[first], self.bits[second], self.bits[out]
        k, a = (v.ravel() for v in np.meshgrid(divisors(k_all), divisors(a_all), indexing="ij"))
        depth = np.minimum(c_all, (capacity_bits - bits_out * k * a) / (bits_weight * k + bits_in * a / taps))
        fits = depth >= 1.0
        if not fits.any():
            return np.full((1, 3), np.inf)
        rows = undominated(np.stack([1.0 / (k[fits] * taps), 1.0 / a[fits], 1.0 / depth[fits]], axis=1))
        options = np.concatenate([np.where(np.arange(3) == waits, 0.0, rows) for waits in range(3)])
        placed = np.zeros_like(options)
        placed[:, [first, second, out]] = options
        return undominated(placed)

    # ---- the array -------------------------------------------------------------------------------

    def array_rows(self, x: int, y: int, shared: bool, kept: tuple[bool, ...], capacity_bits: int) -> Floats:
        """What an array under a buffer does at the least, one row for each choice that may be best: ``k x 8`` (rules LB3, LB4).

        Args:
            x: Children along X.
            y: Along Y.
            shared: Whether equal words are sent once.
            kept: Which tensors the memory of a child keeps.
            capacity_bits: Of that memory; used where it keeps all.
        """
        return self._array_rows(min(x, y), max(x, y), shared, kept, capacity_bits if all(kept) else 0)

    @kept
    def _array_rows(self, x: int, y: int, shared: bool, kept: tuple[bool, ...], capacity_bits: int) -> Floats:
        options = self.reuse(capacity_bits) if all(kept) else None
        if options is None:
            options = np.empty((0, len(self.tensors)))
        splits = self.splits(x, y)
        choices, number = undominated_choices(splits, shared, np.array(kept), options, self.macs, self.words, self.bits)
        rows: Floats = choices[np.argsort(number)]
        return rows


@cache
def _products_that_fit(x: int, y: int) -> NDArray[np.bool_]:
    """For every product up to x y, whether it is a product of p <= x and q <= y: ``x y + 1``."""
    fits = np.zeros(x * y + 1, dtype=np.bool_)
    fits[np.multiply.outer(np.arange(1, x + 1), np.arange(1, y + 1)).ravel()] = True
    return fits
