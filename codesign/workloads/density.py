"""Where the non-zeros of a tensor are: what is known before the data are, as a model (laws D1-D6).

A model answers three questions about a *tile*, a box of the tensor whose place is not known: how full it is on average, how
likely it is to be empty, and how its non-zeros are distributed. Sparseloop (Wu et al., MICRO 2022) asks the same of its density
models.

* D1: `uniform`: `ceil(density x words)` non-zeros, every placement equally likely. Those of a tile of n words are
  hypergeometric; the tile is empty with the chance `C(N - r, n) / C(N, n)`.
* D2: `proportional` (Sparseloop's *fixed-structured*): every tile has its share, rounded so that the mean holds;
  empty only below one element.
* D3: `structured` n:m: every m consecutive elements of one axis hold exactly n. A tile that covers a whole block is
  never empty; parts of blocks are independent draws.
* D4: `banded`: a non-zero stands at most `width` from the diagonal. All aligned tiles are counted.
* D5: `sliced`: the non-zeros of every slice of one axis (e.g. every channel) are known, their places are not. Slices
  are independent.
* D6: `actual`: the mask itself. All aligned tiles are counted.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.core.specs import plain

Extents = tuple[int, ...]
"""Elements along each axis of a tensor or of a tile of it."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Occupancy:
    """The distribution of the non-zeros of a tile.

    Args:
        nonzeros: Possible numbers of non-zeros, ascending.
        probability: Of each; they sum to 1.
    """

    nonzeros: Floats
    probability: Floats

    def over(self, capacity: float) -> float:
        """Probability of more non-zeros than `capacity`."""
        return float(self.probability[self.nonzeros > capacity].sum())

    def expected(self, values: Floats) -> float:
        """Mean of a value that depends on the number of non-zeros."""
        return float(self.probability @ values)


class Density(ABC):
    """A density model. Tiles and the whole tensor are given by their extents.

    Attributes:
        model: Its name in problem files.
        independent: Whether every element is a non-zero with the same chance, wherever it stands and whatever another tensor holds.
    """

    model: ClassVar[str]
    independent: ClassVar[bool] = True

    @abstractmethod
    def fraction(self, whole: Extents) -> float:
        """Non-zeros of the whole tensor as a fraction of its elements."""

    @abstractmethod
    def empty(self, tile: Extents, whole: Extents) -> float:
        """Probability that a tile has no non-zero."""

    @abstractmethod
    def occupancy(self, tile: Extents, whole: Extents) -> Occupancy:
        """Distribution of a tile's non-zeros."""

    def to_json(self) -> JsonObject:
        """The form of problem files: the name of the model, and its fields."""
        return {"model": self.model, **{name: plain(value) for name, value in vars(self).items()}}

    def along(self, axis: int, whole: Extents) -> Floats:
        """Fraction of non-zeros in each slice of an axis."""
        return np.full(whole[axis], self.fraction(whole))

    def check(self, whole: Extents) -> None:
        """Refuse a tensor this model does not describe.

        Raises:
            UserError: E.g. blocks of m do not divide the axis.
        """
        del whole


@final
@dataclass(frozen=True)
class Dense(Density):
    """A tensor without zeros."""

    model = "dense"

    def fraction(self, whole: Extents) -> float:
        """The share of non-zeros in the tensor, which is 1."""
        return 1.0

    def empty(self, tile: Extents, whole: Extents) -> float:
        """The probability that a tile is empty, which is 0."""
        return 0.0

    def occupancy(self, tile: Extents, whole: Extents) -> Occupancy:
        """Every element of a tile is a non-zero, with probability 1."""
        return Occupancy(np.array([float(math.prod(tile))]), np.ones(1))


DENSE = Dense()


@final
@dataclass(frozen=True)
class Uniform(Density):
    """A given number of non-zeros, every placement equally likely: hypergeometric tiles (law D1).

    Args:
        density: Fraction of non-zeros.
    """

    model = "uniform"

    density: float

    def __post_init__(self) -> None:
        check_density(self.density)

    def _counts(self, tile: Extents, whole: Extents) -> tuple[int, int, int]:
        total = math.prod(whole)
        return total, math.ceil(self.density * total), min(math.prod(tile), total)

    def fraction(self, whole: Extents) -> float:
        """The non-zeros are a whole number, rounded up."""
        total, nonzeros, _ = self._counts(whole, whole)
        return nonzeros / total

    def empty(self, tile: Extents, whole: Extents) -> float:
        """Of all choices of the tile's elements, those that miss every non-zero."""
        total, nonzeros, words = self._counts(tile, whole)
        return (total - nonzeros) / total if words == 1 else _missed(total, nonzeros, words)

    def occupancy(self, tile: Extents, whole: Extents) -> Occupancy:
        """How many non-zeros a tile holds: the hypergeometric distribution."""
        total, nonzeros, words = self._counts(tile, whole)
        least, most = max(0, words - (total - nonzeros)), min(words, nonzeros)
        return _hypergeometric(total, nonzeros, words, least, most)


@final
@dataclass(frozen=True)
class Proportional(Density):
    """Every tile has its share of the non-zeros, rounded up or down (law D2; Sparseloop's ``fixed-structured``).

    Args:
        density: Fraction of non-zeros.
    """

    model = "proportional"

    density: float

    def __post_init__(self) -> None:
        check_density(self.density)

    def fraction(self, whole: Extents) -> float:
        """The share of non-zeros in the tensor: the density given."""
        return self.density

    def empty(self, tile: Extents, whole: Extents) -> float:
        """Only tiles whose share is below one element can be."""
        return max(0.0, 1.0 - math.prod(tile) * self.density)

    def occupancy(self, tile: Extents, whole: Extents) -> Occupancy:
        """The two whole numbers around the share, mixed so that the mean is the share."""
        share = math.prod(tile) * self.density
        low = math.floor(share)
        if share == low:
            return Occupancy(np.array([float(low)]), np.ones(1))
        return Occupancy(np.array([low, low + 1.0]), np.array([low + 1 - share, share - low]))


@final
@dataclass(frozen=True)
class Structured(Density):
    """Exactly n non-zeros in every m consecutive elements of an axis, each placement equally likely (law D3).

    Args:
        n: Non-zeros of a block.
        m: Elements of a block.
        axis: Axis the blocks lie along; negative counts from the last.
    """

    model = "structured"

    n: int
    m: int
    axis: int = -1

    def __post_init__(self) -> None:
        if not 0 < self.n <= self.m:
            raise UserError(f"structured density n:m needs 0 < n <= m, got {self.n}:{self.m}")

    def check(self, whole: Extents) -> None:
        """Blocks must tile the axis."""
        if not -len(whole) <= self.axis < len(whole):
            raise UserError(
                f"structured density {self.n}:{self.m} lies along axis {self.axis}, the tensor has {len(whole)}"
            )
        if whole[self.axis] % self.m:
            raise UserError(
                f"structured density {self.n}:{self.m}: blocks of {self.m} do not divide axis {self.axis} of {whole[self.axis]}",
                hint="pad the dimension, or name another axis",
            )

    def fraction(self, whole: Extents) -> float:
        """Non-zeros of a block over its elements."""
        return self.n / self.m

    def _pieces(self, tile: Extents) -> tuple[int, int, int]:
        """Rows of the tile, whole blocks in a row, elements of the block that is left over (aligned tiles)."""
        length = tile[self.axis]
        return math.prod(tile) // length, length // self.m, length % self.m

    def empty(self, tile: Extents, whole: Extents) -> float:
        """Only tiles that hold no whole block can be."""
        rows, blocks, rest = self._pieces(tile)
        if blocks or rest > self.m - self.n:
            return 0.0
        return float((math.comb(self.m - rest, self.n) / math.comb(self.m, self.n)) ** rows)

    def occupancy(self, tile: Extents, whole: Extents) -> Occupancy:
        """Whole blocks have n each; the parts of blocks are independent hypergeometric draws."""
        rows, blocks, rest = self._pieces(tile)
        sure = rows * blocks * self.n
        if rest == 0:
            return Occupancy(np.array([float(sure)]), np.ones(1))
        part = _hypergeometric(self.m, self.n, rest, max(0, rest - self.m + self.n), min(rest, self.n))
        chance = _power(np.concatenate([np.zeros(int(part.nonzeros[0])), part.probability]), rows)
        return Occupancy(sure + np.arange(chance.size, dtype=np.float64), chance)


@final
@dataclass(frozen=True)
class Banded(Density):
    """A matrix whose non-zeros stand within `width` of the diagonal (law D4).

    Args:
        width: Largest distance of a non-zero from the diagonal.
        row: Axis of the rows.
        column: Axis of the columns.
    """

    model = "banded"
    independent = False

    width: int
    row: int = -2
    column: int = -1

    def __post_init__(self) -> None:
        if self.width < 0:
            raise UserError(f"banded density needs a width >= 0, got {self.width}")

    def check(self, whole: Extents) -> None:
        """The band needs two different axes of the tensor."""
        if len(whole) < 2 or self.row % len(whole) == self.column % len(whole):
            raise UserError(f"banded density needs two axes, the tensor has {len(whole)}")

    def _band(self, whole: Extents) -> npt.NDArray[np.int64]:
        """First and past-the-last non-zero column of every row."""
        rows, columns = whole[self.row], whole[self.column]
        centre = np.arange(rows)
        first = np.clip(centre - self.width, 0, columns)
        return np.stack([first, np.clip(centre + self.width + 1, first, columns)], axis=-1)

    def fraction(self, whole: Extents) -> float:
        """Elements of the band over all."""
        band = self._band(whole)
        return float((band[:, 1] - band[:, 0]).sum() / (whole[self.row] * whole[self.column]))

    def _tiles(self, tile: Extents, whole: Extents) -> Floats:
        """Non-zeros in every aligned tile of the row-column plane."""
        height, breadth = min(tile[self.row], whole[self.row]), min(tile[self.column], whole[self.column])
        edges = np.arange(0, whole[self.column], breadth)
        band = self._band(whole)
        inside = np.minimum(band[:, 1:], edges + breadth) - np.maximum(band[:, :1], edges)
        starts = np.arange(0, whole[self.row], height)
        return np.asarray(np.add.reduceat(np.maximum(inside, 0), starts, axis=0), dtype=np.float64).ravel()

    def empty(self, tile: Extents, whole: Extents) -> float:
        """Fraction of aligned tiles off the band."""
        return float((self._tiles(tile, whole) == 0).mean())

    def occupancy(self, tile: Extents, whole: Extents) -> Occupancy:
        """All aligned tiles, equally likely."""
        depth = math.prod(tile) // (tile[self.row] * tile[self.column])
        return _tally(self._tiles(tile, whole) * depth)

    def along(self, axis: int, whole: Extents) -> Floats:
        """Rows and columns differ near the ends."""
        band = self._band(whole)
        if axis == self.row % len(whole):
            return np.asarray((band[:, 1] - band[:, 0]) / whole[self.column])
        if axis == self.column % len(whole):
            edges = np.zeros(whole[axis] + 1)
            np.add.at(edges, band[:, 0], 1.0)
            np.add.at(edges, band[:, 1], -1.0)
            return np.asarray(np.cumsum(edges)[:-1] / whole[self.row])
        return super().along(axis, whole)


@final
@dataclass(frozen=True)
class Sliced(Density):
    """The number of non-zeros of every slice of one axis is known, their places within it are not (law D5).

    Args:
        axis: The axis, e.g. the channels.
        nonzeros: Of each slice.
        words: Elements of a slice.
    """

    model = "sliced"
    independent = False

    axis: int
    nonzeros: tuple[int, ...]
    words: int = field(metadata={"minimum": 1})

    def __post_init__(self) -> None:
        if any(not 0 <= n <= self.words for n in self.nonzeros):
            raise UserError(f"a slice of {self.words} elements cannot hold {max(self.nonzeros)} non-zeros")

    def check(self, whole: Extents) -> None:
        """The slices must make up the tensor: as many along the axis, of as many elements."""
        if whole[self.axis] != len(self.nonzeros) or math.prod(whole) != self.words * len(self.nonzeros):
            raise UserError(f"{len(self.nonzeros)} slices of {self.words} elements do not make a tensor of {whole}")

    def fraction(self, whole: Extents) -> float:
        """The share of non-zeros in the tensor: the sum of the slices' non-zeros over all elements."""
        return sum(self.nonzeros) / (self.words * len(self.nonzeros))

    def along(self, axis: int, whole: Extents) -> Floats:
        """The share of non-zeros of each slice along the axis."""
        if axis != self.axis % len(whole):
            return super().along(axis, whole)
        return np.array(self.nonzeros) / self.words

    def _depth(self, tile: Extents) -> tuple[int, int]:
        """Slices of a tile, its elements in each."""
        return tile[self.axis], math.prod(tile) // tile[self.axis]

    def empty(self, tile: Extents, whole: Extents) -> float:
        """The aligned groups of slices on average; slices of a group are independent."""
        slices, inside = self._depth(tile)
        missed = np.array([_missed(self.words, n, inside) for n in self.nonzeros])
        starts = np.arange(0, missed.size, slices)
        return float(np.multiply.reduceat(missed, starts).mean())

    def occupancy(self, tile: Extents, whole: Extents) -> Occupancy:
        """The aligned groups of slices on average."""
        slices, inside = self._depth(tile)
        total = np.zeros(slices * inside + 1)
        groups = range(0, len(self.nonzeros), slices)
        for start in groups:
            chance = np.ones(1)
            for n in self.nonzeros[start : start + slices]:
                low, high = max(0, inside - (self.words - n)), min(inside, n)
                part = _hypergeometric(self.words, n, inside, low, high)
                chance = np.convolve(chance, np.concatenate([np.zeros(low), part.probability]))
            total[: chance.size] += chance / len(groups)
        return Occupancy(np.arange(total.size, dtype=np.float64), total)


@final
@dataclass(frozen=True, eq=False)
class Actual(Density):
    """The data themselves (law D6).

    Args:
        mask: True where an element is not zero; one axis per axis of the tensor.
        source: The file it came from, for people and for files.
    """

    model = "actual"
    independent = False

    mask: npt.NDArray[np.bool_] = field(repr=False)
    source: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Actual) and np.array_equal(self.mask, other.mask)

    def __hash__(self) -> int:
        return hash((self.mask.shape, self.mask.tobytes()))

    def check(self, whole: Extents) -> None:
        """The mask is as large as the tensor."""
        if self.mask.shape != whole:
            raise UserError(f"the mask {self.source!r} has shape {self.mask.shape}, the tensor {whole}")

    def fraction(self, whole: Extents) -> float:
        """The share of non-zeros, counted on the mask."""
        return float(self.mask.mean())

    def along(self, axis: int, whole: Extents) -> Floats:
        """The share of non-zeros at every place of an axis, counted on the mask."""
        return np.asarray(self.mask.mean(axis=tuple(a for a in range(self.mask.ndim) if a != axis)))

    def _tiles(self, tile: Extents) -> Floats:
        """Non-zeros of every aligned tile."""
        sums = self.mask.astype(np.float64)
        for axis, extent in enumerate(tile):
            sums = np.add.reduceat(sums, np.arange(0, sums.shape[axis], extent), axis=axis)
        return sums.ravel()

    def empty(self, tile: Extents, whole: Extents) -> float:
        """Fraction of aligned tiles that are."""
        return float((self._tiles(tile) == 0).mean())

    def occupancy(self, tile: Extents, whole: Extents) -> Occupancy:
        """All aligned tiles, equally likely."""
        return _tally(self._tiles(tile))

    def to_json(self) -> JsonObject:
        """``{"model": "actual", "file": path}``."""
        return {"model": "actual", "file": self.source}


def check_density(value: float) -> None:
    """Refuse what is no density.

    Raises:
        UserError: Not a number from 0 to 1.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise UserError(f"a density must be a number from 0 to 1, got {value!r}")


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _missed(total: int, nonzeros: int, words: int) -> float:
    """Probability that `words` of `total` elements miss all non-zeros."""
    if words > total - nonzeros:
        return 0.0
    return math.exp(_log_choose(total - nonzeros, words) - _log_choose(total, words))


def _hypergeometric(total: int, nonzeros: int, words: int, least: int, most: int) -> Occupancy:
    """Chances of `least`..`most` non-zeros among `words` of `total` elements."""
    counts = np.arange(least, most + 1)
    # successive ratios; their sum is 1, so no factorial of a large number is needed
    k = counts[:-1].astype(np.float64)
    up = (nonzeros - k) * (words - k)
    down = (k + 1.0) * (total - nonzeros - words + k + 1.0)
    logs = np.concatenate([np.zeros(1), np.cumsum(np.log(up) - np.log(down))])
    chance = np.exp(logs - logs.max())
    return Occupancy(counts.astype(np.float64), chance / chance.sum())


def _power(chance: Floats, times: int) -> Floats:
    """Distribution of the sum of `times` independent draws."""
    result = np.ones(1)
    while times:
        if times & 1:
            result = np.convolve(result, chance)
        chance = np.convolve(chance, chance) if times > 1 else chance
        times >>= 1
    return result


def _tally(values: Floats) -> Occupancy:
    nonzeros, times = np.unique(values, return_counts=True)
    return Occupancy(nonzeros.astype(np.float64), times / values.size)
