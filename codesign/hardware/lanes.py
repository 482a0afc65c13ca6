"""Which line of the scratchpad serves which processing elements.

At one iteration the elements want words at fixed distances from the tile's address. A *window* is a line that serves those
whose words lie in it. Elements that want the same word share it (S1 of docs/reference/cost-model.md), unless the links share nothing (S4).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache

from codesign.hardware.parameters import PARTIAL_BYTES, WORD_BYTES, Parameters

Element = tuple[int, int]
"""Row and column of a processing element."""


@dataclass(frozen=True)
class Window:
    """One read of an operand.

    Args:
        start: Bytes from the tile's address.
        bytes_of: By element, the byte of the line that it takes.
        group: Words that it takes from there on, on average where the last ones of a tile are fewer.
    """

    start: int
    bytes_of: Mapping[Element, int]
    group: Fraction = Fraction(1)

    @property
    def words(self) -> Fraction:
        """Different elements of the tensor that are read."""
        return self.group * len(set(self.bytes_of.values()))

    @property
    def taken(self) -> Fraction:
        """Words that the elements take, each for itself."""
        return self.group * len(self.bytes_of)


@dataclass(frozen=True)
class Emission:
    """One line of results.

    Args:
        start: Bytes from the tile's address.
        group: Row group whose elements give their value.
        window: Column window whose columns are in the line.
        head: The first to reach these words: it alone may find that their sums begin.
    """

    start: int
    group: int
    window: int
    head: bool


@dataclass(frozen=True)
class Emissions:
    """How results leave the array.

    Args:
        lines: In the order in which they leave.
        group: Row group of each row.
        window, slot: Column window of each column, and its place in the line.
        head: The elements that take old partial sums along; the others of their group begin at zero.
        resting: Elements between those in use that have no iteration.
    """

    lines: tuple[Emission, ...]
    group: tuple[int, ...]
    window: tuple[int, ...]
    slot: tuple[int, ...]
    head: frozenset[Element]
    resting: frozenset[Element] = frozenset()


class Start(Enum):
    """Where lines begin.

    WORD: Every address is a multiple of a bank's word.
    WITHIN: Lines begin within words, and have what that leaves of them.
    ANY: Lines begin at any byte and have all their bytes.
    """

    WORD = 0
    WITHIN = 1
    ANY = 2

    @classmethod
    def of(cls, p: Parameters, distances: Iterable[int]) -> "Start":
        """On a machine whose lines begin so many bytes apart."""
        if p.halved_banks:
            return cls.ANY
        return cls.WORD if all(d % WORD_BYTES == 0 for d in distances) else cls.WITHIN

    def reach(self, line_bytes: int, size: int) -> int:
        """Bytes of a line that can be used from its first word of so many bytes on."""
        return line_bytes - WORD_BYTES + size if self is Start.WITHIN else line_bytes


def _packed(offsets: Sequence[int], line_bytes: int, size: int, begins: Start) -> list[tuple[int, list[int]]]:
    """Sorted distinct offsets in as few lines as a sweep finds: (start, offsets)."""
    found: list[tuple[int, list[int]]] = []
    reach = begins.reach(line_bytes, size)
    for offset in sorted(set(offsets)):
        if found and offset + size <= found[-1][0] + reach:
            found[-1][1].append(offset)
        else:
            start = offset - offset % WORD_BYTES if begins is Start.WORD else offset
            found.append((start, [offset]))
    return found


def operand_windows(
    offset: Mapping[Element, int],
    line_bytes: int,
    begins: Start,
    shared: bool,
    group: Fraction = Fraction(1),
    size: int = 1,
) -> tuple[Window, ...]:
    """The reads that serve every element with an operand of one byte, or with a group of them.

    Args:
        offset: Bytes from the tile's address of what each element wants.
        line_bytes: Bytes of a line.
        begins: Where the lines begin.
        shared: Elements that want the same word are served together.
        group: Words that an element takes at once, on average.
        size: Bytes that it takes at once: 1, 2 or 4, in whole pairs or fours of the line's bytes.
    """
    rounds: list[dict[int, list[Element]]] = []
    if shared:
        together: dict[int, list[Element]] = defaultdict(list)
        for element, at in offset.items():
            together[at].append(element)
        rounds = [together]
    else:
        for element, at in offset.items():
            free = next((r for r in rounds if at not in r), None)
            if free is None:
                rounds.append(free := {})
            free[at] = [element]
    windows = []
    for wanted in rounds:
        for rest in sorted({at % size for at in wanted}):  # those that lie in pairs or fours of one line
            for start, offsets in _packed([at for at in wanted if at % size == rest], line_bytes, size, begins):
                windows.append(Window(start, {e: at - start for at in offsets for e in wanted[at]}, group))
    return tuple(windows)


def lines_served(times: Mapping[int, int], line_bytes: int, begins: Start, shared: bool, size: int = 1) -> int:
    """How many reads `operand_windows` has.

    Args:
        times: By distance from the tile's address, how many elements want what lies there.
        line_bytes, begins, shared, size: As there.

    >>> lines_served({0: 2, 1: 1, 64: 1}, 64, Start.ANY, True), lines_served({0: 2, 1: 1, 64: 1}, 64, Start.ANY, False)
    (2, 3)
    """
    lines, again = 0, 0
    while wanted := [at for at, n in times.items() if n > again]:
        for rest in range(size):
            lines += len(
                _packed([at for at in wanted if at % size == rest] if size > 1 else wanted, line_bytes, size, begins)
            )
        if shared:
            break
        again += 1
    return lines


@lru_cache(maxsize=1024)
def result_emissions(
    by_row: tuple[int, ...],
    by_column: tuple[int, ...],
    line_bytes: int,
    begins: Start,
    shared: bool,
    resting: frozenset[Element] = frozenset(),
) -> Emissions:
    """The lines in which results leave: rows that reach the same words form a group, columns of neighbouring words a window.

    Args:
        by_row, by_column: Bytes from the tile's address; an element's word lies at the sum of its row's and its column's.
        line_bytes: Bytes of a line.
        begins: Where the lines begin.
        shared: Sums are formed on the way; otherwise every element's value is added on its own.
        resting: Elements that give nothing; a line that these alone would fill does not leave.
    """
    group = [sorted(set(by_row)).index(r) for r in by_row] if shared else list(range(len(by_row)))
    rounds: list[list[int]] = [[]] if shared else []
    for x, at in enumerate(by_column):
        if shared:
            rounds[0].append(x)
            continue
        free = next((r for r in rounds if all(by_column[other] != at for other in r)), None)
        if free is None:
            rounds.append(free := [])
        free.append(x)
    window, slot = [0] * len(by_column), [0] * len(by_column)
    lines: list[tuple[int, bool]] = []
    for number, columns in enumerate(rounds):
        for start, offsets in _packed([by_column[x] for x in columns], line_bytes, PARTIAL_BYTES, begins):
            for x in columns:
                if by_column[x] in offsets:
                    window[x], slot[x] = len(lines), (by_column[x] - start) // PARTIAL_BYTES
            lines.append((start, number == 0))
    first_row = {g: group.index(g) for g in set(group)}
    emissions, heads, begun = [], set(), set()
    for g in sorted(set(group)):
        row = by_row[first_row[g]]
        fresh = row not in begun
        begun.add(row)
        for j, (start, first_round) in enumerate(lines):
            if all((y, x) in resting for y, q in enumerate(group) if q == g for x, w in enumerate(window) if w == j):
                continue
            emissions.append(Emission(row + start, g, j, fresh and first_round))
        if fresh:
            heads |= {(first_row[g], by_column.index(at)) for at in set(by_column)}
    return Emissions(tuple(emissions), tuple(group), tuple(window), tuple(slot), frozenset(heads), resting)
