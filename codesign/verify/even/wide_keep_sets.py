"""Closed bounds of many keep sets at once: the energy of a profile is a sum over tensors, so most sets fall by additions (rule K5)."""

import itertools
from collections import defaultdict

import numpy as np

from codesign.core.errors import UserError
from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray
from codesign.verify.even.problem import Kept, Space, Vector
from codesign.verify.even.screen import Hardware, bound_of, encoded, next_combination, reached_level

WIDE = 256
"""Keep sets from which on they are bounded together."""

MOST_CLAIMS = 20_000
"""Pairs of a keep set and a combination of vectors that a certificate may leave open."""


def open_together(space: Space, limit: float) -> dict[Kept, list[tuple[Vector, ...]]]:
    """By keep set the combinations of vectors whose closed bound is below `limit`; sets without any are left out.

    Raises:
        UserError: More than `MOST_CLAIMS` are left.
    """
    columns = [list(itertools.product(*choices)) for choices in space.keep_choices()]
    kept = tuple(zip(*(column[0] for column in columns), strict=True))
    hardware, choices, first, table = encoded(space, kept)
    if not all(choices):  # a fixed factor that divides no bound
        return {}
    most = max(map(len, columns))
    masks = np.zeros((len(columns), most, space.n_levels), np.int64)
    for t, column in enumerate(columns):
        masks[t, : len(column)] = column
    count = np.array([len(column) for column in columns], np.int64)
    n, m = space.objective.energy_exponent, space.objective.latency_exponent
    found = np.zeros((MOST_CLAIMS, space.n_levels + len(columns)), np.int64)
    number = _screen_sets(hardware, first, table, masks, count, n, m, limit, found)
    if number > MOST_CLAIMS:
        raise UserError(
            f"--certificate does not cover so many keep sets: closed bounds leave more than {MOST_CLAIMS:,} claims",
            hint="name in the constraints what levels keep or bypass",
        )
    flat, by_set = [v for c in choices for v in c], defaultdict(list)
    for row in found[:number].tolist():
        chosen = (column[i] for column, i in zip(columns, row[space.n_levels :], strict=True))
        by_set[tuple(zip(*chosen, strict=True))].append(tuple(flat[i] for i in row[: space.n_levels]))
    return dict(by_set)


@njit
def _screen_sets(
    h: Hardware, first: IntArray, table: IntArray, masks: IntArray, count: IntArray, n: float, m: float, limit: float,
    found: IntArray,
) -> int:  # fmt: skip
    """Write the digits of combinations and the keep set of every tensor of what is below `limit`; how many there are, one more than fit if too many."""
    levels, dims, tensors = len(first) - 1, table.shape[1], masks.shape[0]
    digit = first[:levels].copy()
    outside, distinct = np.ones((levels + 1, dims)), np.ones((levels, h.coef.shape[0]))
    more, at = np.zeros((tensors, masks.shape[1])), np.zeros(tensors, np.int64)
    number, changed = 0, 0
    while True:
        reached = reached_level(h, table, digit, changed, outside, distinct)
        changed = min(reached, levels - 1)
        if reached == levels:
            least = _fill_differences(h, outside, distinct, masks, count, more)
            steps = float(h.arrays.macs)
            for d in range(dims):
                steps /= outside[levels, d]
            lowest = least
            for t in range(tensors):
                lowest += more[t, : count[t]].min()
            at[:] = 0
            while _below(lowest, steps, n, m, limit):
                total = least
                for t in range(tensors):
                    total += more[t, at[t]]
                if _below(total, steps, n, m, limit):
                    _keep(h, masks, at)
                    energy, cycles = bound_of(h, outside, distinct)
                    if max(0.0, energy * (1.0 - 1e-9)) ** n * cycles**m < limit:
                        if number == found.shape[0]:
                            return number + 1
                        found[number, :levels] = digit
                        found[number, levels:] = at
                        number += 1
                if not _next_set(at, count):
                    break
        changed = next_combination(digit, first, changed)
        if changed < 0:
            return number


@njit
def _below(energy: float, steps: float, n: float, m: float, limit: float) -> bool:
    """Whether energy and the cycles of the MACs alone leave a combination open, but for rounding."""
    return bool(max(0.0, energy * (1.0 - 3e-9)) ** n * steps**m < limit)


@njit
def _keep(h: Hardware, masks: IntArray, at: IntArray) -> None:
    """Let every tensor be kept where its mask says."""
    for t in range(at.shape[0]):
        for v in range(h.kept.shape[0]):
            h.kept[v, t] = masks[t, at[t], v]


@njit
def _next_set(at: IntArray, count: IntArray) -> bool:
    """Step to the next keep set; whether there is one."""
    for t in range(at.shape[0]):
        at[t] += 1
        if at[t] < count[t]:
            return True
        at[t] = 0
    return False


@njit
def _fill_differences(
    h: Hardware, outside: FloatArray, distinct: FloatArray, masks: IntArray, count: IntArray, more: FloatArray
) -> float:
    """The energy with the first mask of every tensor; `more` is filled with what each other mask adds."""
    at = np.zeros(count.shape[0], np.int64)
    _keep(h, masks, at)
    least, _ = bound_of(h, outside, distinct)
    for t in range(count.shape[0]):
        for k in range(count[t]):
            at[t] = k
            _keep(h, masks, at)
            energy, _ = bound_of(h, outside, distinct)
            more[t, k] = energy - least
        at[t] = 0
    return least
