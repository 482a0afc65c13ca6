"""Instruction streams of a core as they grow: launches, who waits for whom, what the cycle model needs of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from codesign.hardware.image import Image
from codesign.hardware.layout import Box
from codesign.hardware.words import Command, DmaCommand


@dataclass
class Launch:
    """A command: the register writes before it, what it starts, and which launch of the other queue must be over.

    Where engines run beside their queue, `after` and `after_stores` of an array's command count loads and stores that must be over.
    """

    writes: list[tuple[str, int]]
    data: int
    after: int | None
    signals: bool = False
    after_stores: int | None = None


@dataclass(frozen=True)
class CommandShape:
    """What the cycle model needs of a command of the array: its kind, and words or iterations."""

    kind: int
    items: int


@dataclass
class Streams:
    """The two queues as they grow, and who touched what last."""

    array: list[Launch] = field(default_factory=list)
    dma: list[Launch] = field(default_factory=list)
    shapes: list[CommandShape] = field(default_factory=list)
    transfers: list[tuple[Box, int, int, bool, bool]] = field(default_factory=list)
    array_use: dict[str, int] = field(default_factory=dict)
    dma_use: dict[str, int] = field(default_factory=dict)
    array_since: dict[str, int] = field(default_factory=dict)
    numbers: list[tuple[bool, int]] = field(default_factory=list)
    of_kind: list[int] = field(default_factory=lambda: [0, 0])

    def number(self, i: int) -> tuple[bool, int]:
        """Whether a DMA command is a store, and its number among its kind, counted from 1."""
        for k in range(len(self.numbers), len(self.dma)):
            stores = self.dma[k].data & 3 == DmaCommand.STORE
            self.of_kind[stores] += 1
            self.numbers.append((stores, self.of_kind[stores]))
        return self.numbers[i]


@dataclass(frozen=True)
class CoreImage:
    """An image with what the cycle model needs of its commands.

    Args:
        image: Streams and layouts.
        array, dma: By queue, one entry a word: None for a register write, else what it launches or waits for.
    """

    image: Image
    array: tuple[tuple[str, int, int], ...]
    dma: tuple[tuple[str, int, int], ...]
    shapes: tuple[CommandShape, ...]
    transfers: tuple[tuple[Box, int, int, bool, bool], ...]

    def items(self, kind: Command) -> int:
        """Words or iterations of all the array's commands of a kind."""
        return sum(shape.items for shape in self.shapes if shape.kind == kind)


def changed(shadow: dict[str, int], wanted: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The writes that change a register; registers begin at zero."""
    found = []
    for name, value in wanted:
        if shadow.get(name, 0) != value:
            shadow[name] = value
            found.append((name, value))
    return found


def waits_of(mine: list[Launch], others: list[Launch]) -> list[int]:
    """For each launch, the completions of the other queue to wait for, 0 where it waits for none; marks who signals."""
    awaited = sorted({launch.after for launch in mine if launch.after is not None})
    for i in awaited:
        others[i].signals = True
    number = {i: k + 1 for k, i in enumerate(awaited)}
    found, seen = [], 0
    for launch in mine:
        count = number[launch.after] if launch.after is not None else 0
        found.append(count if count > seen else 0)
        seen = max(seen, count)
    return found


def counted_waits(launches: list[Launch]) -> list[tuple[int, int]]:
    """For each of the array's commands, the loads and the stores that must be over, 0 where an earlier command waited for them."""
    found, seen = [], [0, 0]
    for launch in launches:
        wanted = (launch.after or 0, launch.after_stores or 0)
        found.append((wanted[0] if wanted[0] > seen[0] else 0, wanted[1] if wanted[1] > seen[1] else 0))
        seen = [max(a, b) for a, b in zip(seen, wanted, strict=True)]
    return found


def events_of(launches: list[Launch], waits: list[tuple[int, int]]) -> tuple[tuple[str, int, int], ...]:
    """(what, value, whether it signals) of the words that are not plain register writes, those counted between.

    Writes from the first one on that goes to a DMA engine's own registers are ``held``.
    """
    found: list[tuple[str, int, int]] = []
    for launch, (wait, stores) in zip(launches, waits, strict=True):
        own = [name.startswith(("read_", "write_")) for name, _ in launch.writes]
        free = own.index(True) if True in own else len(own)
        found.append(("writes", free, 0))
        if free < len(own):
            found.append(("held", len(own) - free, launch.data & 3))
        if wait:
            found.append(("wait", wait, 0))
        if stores:
            found.append(("wait stores", stores, 0))
        found.append(("launch", launch.data, int(launch.signals)))
    return tuple(found)
