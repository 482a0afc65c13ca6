"""What an array under a buffer does at the least, split by split and option by option (rules LB3 and LB4), compiled."""

import numpy as np
from numpy.typing import NDArray

from codesign.core.jit import njit

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CYCLES, READ, UPDATE, COPIES, SENT, LOCAL_READ, LOCAL_WRITE, LOCAL_BUSY = range(8)
"""Columns of a choice; all but the first and the last are bits."""
COLUMNS = 8


@njit
def undominated_choices(
    splits: Floats, shared: bool, held: Bools, options: Floats, macs: float, words: Floats, bits: Floats
) -> tuple[Floats, NDArray[np.int64]]:
    """The distinct choices that no other is below in every column, ``k x 8``, and the number of each: ``k``.

    Args:
        splits: Children in use, the least and the most different words wanted of each tensor: ``n x (1 + 2 T)``.
        shared: Whether equal words are sent once.
        held: Which tensors the memory of a child keeps: ``T``.
        options: Words per MAC that enter a child's memory, no row where any may enter: ``q x T``.
        macs: Of the layer.
        words: Different words of each tensor: ``T``.
        bits: Of a word: ``T``.
    """
    several = max(len(options), 1)
    total = len(splits) * several
    kept, which = np.empty((total, COLUMNS)), np.empty(total, np.int64)
    once, row, count = np.empty(len(words)), np.empty(COLUMNS), 0
    for split in range(len(splits) - 1, -1, -1):  # the widest first: they dominate most
        for t in range(len(words)):
            once[t] = words[t] / splits[split, 1 + len(words) + t]
        for option in range(several):
            _choice(row, splits[split], shared, held, options[option : option + 1], macs, words, bits, once)
            if _dominated(row, kept, which, count):
                continue
            count = _without_dominated(row, kept, which, count)
            kept[count], which[count] = row, split * several + option
            count += 1
    return kept[:count].copy(), which[:count].copy()


@njit
def _choice(
    row: Floats, split: Floats, shared: bool, held: Bools, option: Floats, macs: float, words: Floats, bits: Floats, once: Floats
) -> None:  # fmt: skip
    """One choice, into `row`. `once` has the words of one child that are each brought once."""
    used, out = split[0], len(words) - 1
    read, update, copies, sent = 0.0, 0.0, 0.0, 0.0
    local_read, local_write = 0.0, 0.0
    for t in range(len(words)):
        entering = once[t] if held[t] else macs / used
        if len(option):
            entering = max(once[t], macs / used * option[0, t])
        moved = max(entering * (split[1 + t] if shared else used), words[t] if held[t] else 0.0) * bits[t]
        sent += moved
        copies += entering * used * bits[t]
        if t < out:
            read += moved
            if held[t]:
                local_read += macs * bits[t]
                local_write = local_write + entering * used * bits[t]
        else:
            update = moved
            read += max(update - words[t] * bits[t], 0.0)
            if held[t]:
                adding = used / split[1 + t]  # children that add into one word
                local_read += (macs - words[t] * adding) * bits[t]
                local_write += (macs + max(entering * used - words[t] * adding, 0.0)) * bits[t]
    row[CYCLES], row[READ], row[UPDATE], row[COPIES], row[SENT] = macs / used, read, update, copies, sent
    row[LOCAL_READ], row[LOCAL_WRITE], row[LOCAL_BUSY] = local_read, local_write, max(local_read, local_write) / used


@njit
def _dominated(row: Floats, kept: Floats, which: NDArray[np.int64], count: int) -> bool:
    """Whether a kept choice is nowhere above the row; that one moves to the front, as it will dominate more."""
    for k in range(count):
        if _nowhere_above(kept[k], row):
            for c in range(COLUMNS):
                kept[0, c], kept[k, c] = kept[k, c], kept[0, c]
            which[0], which[k] = which[k], which[0]
            return True
    return False


@njit
def _without_dominated(row: Floats, kept: Floats, which: NDArray[np.int64], count: int) -> int:
    """Close up the kept choices that the row is nowhere above; how many stay."""
    stay = 0
    for k in range(count):
        if not _nowhere_above(row, kept[k]):
            if stay < k:
                kept[stay], which[stay] = kept[k], which[k]
            stay += 1
    return stay


@njit
def _nowhere_above(left: Floats, right: Floats) -> bool:
    above = False
    for c in range(COLUMNS):
        above |= left[c] > right[c]
    return not above
