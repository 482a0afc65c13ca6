"""How a tensor lies in memory: digits of its axes from the most significant to the least (docs/explanation/dram-and-mesh.md, A1)."""

import re
from dataclasses import dataclass

import numpy as np

from codesign.core.errors import UserError
from codesign.mapping.nest import IntArray

ROW_MAJOR, TILED = "row-major", "tiled"
_DIGIT = re.compile(r"(\d+)(?:/(\d+))?(?:%(\d+))?")


@dataclass(frozen=True)
class Digit:
    """``(index // divisor) % modulus`` of one axis; without a modulus all that is left of the index.

    Args:
        axis: Of the tensor, 0 first.
        divisor: At least 1.
        modulus: None for the axis's most significant digit.
    """

    axis: int
    divisor: int = 1
    modulus: int | None = None


@dataclass(frozen=True)
class Layout:
    """Where every element of a tensor lies.

    Args:
        digits: Most significant first.
        shape: Extents of the axes.
    """

    digits: tuple[Digit, ...]
    shape: tuple[int, ...]

    def _extent(self, digit: Digit) -> int:
        return digit.modulus or -(-self.shape[digit.axis] // digit.divisor)

    def parts(self) -> tuple[list[IntArray], int]:
        """What each index of each axis adds to an element's place, and the places the whole tensor takes."""
        found = [np.zeros(size, np.int64) for size in self.shape]
        stride = 1
        for digit in reversed(self.digits):
            value = np.arange(self.shape[digit.axis], dtype=np.int64) // digit.divisor
            if digit.modulus is not None:
                value %= digit.modulus
            found[digit.axis] += value * stride
            stride *= self._extent(digit)
        return found, stride

    @property
    def order(self) -> tuple[int, ...]:
        """The axes, the one whose first digit stands first outermost: the order in which a region is walked."""
        return tuple(dict.fromkeys(d.axis for d in self.digits))

    @property
    def monotonic(self) -> bool:
        """Whether walking a region in `order` meets ascending places."""
        return len(self.digits) == len(self.shape)


def read_layout(text: str, shape: tuple[int, ...], tile: tuple[int, ...], where: str) -> Layout:
    """A layout by name or by its digits.

    Args:
        text: ``row-major``, ``tiled``, or digits such as ``0, 1/16, 2, 3, 1%16``.
        shape: Extents of the tensor's axes.
        tile: Extents of the blocks of ``tiled``.
        where: For messages.

    Raises:
        UserError: A digit cannot be read, or the digits of an axis do not add up to its index.
    """
    if text == ROW_MAJOR:
        return Layout(tuple(Digit(a) for a in range(len(shape))), shape)
    if text == TILED:
        outer = tuple(Digit(a, tile[a]) for a in range(len(shape)))
        inner = tuple(Digit(a, 1, tile[a]) for a in range(len(shape)) if tile[a] > 1)
        return Layout(outer + inner, shape)
    digits = []
    for item in text.split(","):
        match = _DIGIT.fullmatch(item.strip())
        if match is None:
            raise UserError(
                f"`layout` must be row-major, tiled, or digits such as 0, 1/16, 2, 3, 1%16; got {item.strip()!r}",
                where=where,
            )
        axis, divisor, modulus = (None if g is None else int(g) for g in match.groups())
        assert axis is not None
        if axis >= len(shape):
            raise UserError(f"`layout` names axis {axis}, but the tensor has {len(shape)} axes", where=where)
        digits.append(Digit(axis, 1 if divisor is None else divisor, modulus))
    _check(digits, shape, where, text)
    return Layout(tuple(digits), shape)


def _check(digits: list[Digit], shape: tuple[int, ...], where: str, text: str) -> None:
    """Each axis's digits, from the least significant, take up the index without gap or overlap."""
    for axis in range(len(shape)):
        reached: int | None = 1
        for digit in sorted((d for d in digits if d.axis == axis), key=lambda d: (d.divisor, d.modulus is None)):
            if reached is None or digit.divisor != reached or digit.modulus == 0:
                reached = 0
                break
            reached = None if digit.modulus is None else reached * digit.modulus
        if reached is not None:
            raise UserError(
                f"`layout` must hold every digit of axis {axis} once, got {text!r}",
                where=where,
                hint=f"write {axis}, or {axis}/16 and {axis}%16",
            )
