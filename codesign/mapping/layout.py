"""Where a tensor's elements lie: `layout` nodes of a mapping file.

```yaml
- {layout: Weights, order: [K/16, C, R, S, "K%16"]}
```

A layout lists digits of the tensor's axes from the outermost to the innermost. ``K`` is a whole axis, ``K/16`` its steps of 16, ``K%16`` the place within
such a step, ``K/4%4`` four steps of 4. The digits of an axis together say each of its positions once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codesign.core.errors import UserError, unknown_name

if TYPE_CHECKING:
    from codesign.workloads.computation import Computation, Tensor

_DIGIT = re.compile(r"\s*(?P<axis>[^/%]+?)\s*(?:/\s*(?P<step>\d+))?\s*(?:%\s*(?P<count>\d+))?\s*")


@dataclass(frozen=True)
class Digit:
    """One digit of an element's position.

    Args:
        axis: Of the tensor, as its notation writes it.
        step: Positions on the axis that one step of the digit moves.
        count: Steps; None for all that the axis has.
    """

    axis: str
    step: int = 1
    count: int | None = None

    def __str__(self) -> str:
        return self.axis + (f"/{self.step}" if self.step > 1 else "") + (f"%{self.count}" if self.count else "")

    @classmethod
    def parse(cls, text: str) -> "Digit":
        """The digit that a text says.

        >>> Digit.parse("K/4%8")
        Digit(axis='K', step=4, count=8)

        Raises:
            UserError: It says none.
        """
        found = _DIGIT.fullmatch(text)
        if found is None or found["step"] == "0" or found["count"] == "0":
            raise UserError(f"expected an axis, such as K, K/16 or K%16, got {text!r}")
        return cls(
            found["axis"].replace(" ", ""), int(found["step"] or 1), int(found["count"]) if found["count"] else None
        )


@dataclass(frozen=True)
class TensorLayout:
    """The order in which a tensor's elements lie.

    Args:
        tensor: Its name.
        order: Digits from the outermost to the innermost.
    """

    tensor: str
    order: tuple[Digit, ...]

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(str(d) for d in self.order)}]"

    def parts(self, tensor: "Tensor", sizes: dict[str, int]) -> tuple[tuple[int, int, int], ...]:
        """(number of the axis, step, count) of every digit, the outermost first; those of one step are left out.

        Raises:
            UserError: An axis is unknown, or its digits do not say each position once.
        """
        where = f"mapping, layout of {self.tensor!r}"
        names = [str(axis) for axis in tensor.axes]
        found = []
        for digit in self.order:
            if digit.axis not in names:
                raise unknown_name("axis", digit.axis, names, where=where)
            axis = names.index(digit.axis)
            extent = tensor.axes[axis].extent(sizes)
            found.append((axis, digit.step, digit.count or max(1, extent // digit.step)))
        for axis, name in enumerate(names):
            _check_digits(name, [(s, n) for a, s, n in found if a == axis], tensor.axes[axis].extent(sizes), where)
        return tuple(part for part in found if part[2] > 1 or tensor.axes[part[0]].extent(sizes) == 1)


def _check_digits(name: str, digits: Sequence[tuple[int, int]], extent: int, where: str) -> None:
    reached = 1
    for step, count in sorted(digits):
        if step != reached:
            raise UserError(
                f"the digits of axis {name!r} must follow each other: one steps by {step}, those below it end at {reached}",
                where=where,
            )
        reached *= count
    if reached != extent or not digits:
        raise UserError(
            f"the digits of axis {name!r} must say its {extent} positions, they say {reached if digits else 0}",
            where=where,
        )


def check_layouts(computation: "Computation", layouts: Sequence[TensorLayout]) -> None:
    """Refuse layouts that are none of a computation's tensors.

    Raises:
        UserError: The first mistake.
    """
    tensors = {t.name: t for t in computation.tensors}
    seen: set[str] = set()
    for item in layouts:
        if item.tensor not in tensors:
            raise unknown_name("tensor", item.tensor, tensors, where="mapping, layout")
        if item.tensor in seen:
            raise UserError(f"{item.tensor!r} has two layouts", where="mapping, layout")
        seen.add(item.tensor)
        item.parts(tensors[item.tensor], computation.sizes)
