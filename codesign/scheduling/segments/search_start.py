"""The start of the search: a dynamic program over cuts of consecutive layers (docs/explanation/many-cores.md, rule M52)."""

from typing import final

import numpy as np

from codesign.core import clock
from codesign.core.factors import divisors
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.aligned_start import AlignedStart
from codesign.scheduling.segments.kernels import moves, tree_search
from codesign.scheduling.segments.kernels import tree as tree_kernels
from codesign.scheduling.segments.kernels.machine import Tokens, Workspace
from codesign.scheduling.segments.kernels.segment_cost import tree_value
from codesign.scheduling.segments.layers import SegmentNetwork

START_SHARE = 0.6
"""Share of the time after which the start takes no longer segments."""

ROOT_SHARE = 0.65
"""Share of the time after which the start takes no longer cuts below a root with groups."""

TIME_SHARE = 0.45
"""Share of the time after which the start takes no longer cuts in time."""

START_SECONDS = 0.15
"""CPU seconds that shares are taken of where there are fewer: small systems have a full start then."""

SURE_LENGTHS = 4
"""Lengths of cuts in time that the start takes whatever the time, until it has a tree: two, four, eight and sixteen layers."""

SHARES = (2, 3, 4, 6, 8)
"""Blocks of about equal work that a cut in space of the start may have."""

SHARES_SHARE = 0.1
"""Share of the time that such cuts may take."""

SHARE_LENGTHS = (32, 16, 8, 4, 24, 12, 6, 3)
"""Layers of such cuts that come first, and alone where trees are counted."""

ALIGNED_SHARE = 0.35
"""Share of the time that trees of layers cut alike may take."""

REST = 0.5
"""Time that further starts take after a much better tree of layers cut alike, over that otherwise."""

MUCH = 0.1
"""Fall of the logarithm of the goal that makes a tree much better."""

ORDERS_SHARE = 0.2
"""Share of the time after which the start tries no further order of the layers."""

SURE_SHARES = 2
"""Lengths of cuts in space of shares that are tried with every order."""

LONGER_IN_TIME = 4
"""Layers of a cut in time of the start, over those of a cut in space at most."""


def orders_of(network: SegmentNetwork) -> list[IntArray]:
    """Orders of the layers that the start may cut, each with producers first: as given, by distance to the end, depth first.

    By distance, layers that may run side by side stand together. Depth first, a layer follows the last of its producers.
    """
    n = len(network.layers)
    read, readers = [layer.producers for layer in network.layers], network.readers()
    distance, missing = [0] * n, [len(producers) for producers in read]
    for i in reversed(range(n)):
        for producer in read[i]:
            distance[producer] = max(distance[producer], distance[i] + 1)
    late = sorted(range(n), key=lambda i: (-distance[i], i))
    deep: list[int] = []
    ready = [i for i in reversed(range(n)) if not read[i]]
    while ready:
        layer = ready.pop()
        deep.append(layer)
        for reader in reversed(readers[layer]):
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    distinct = dict.fromkeys((tuple(range(n)), tuple(late), tuple(deep)))
    return [np.array(order, np.int64) for order in distinct]


def coarse_first(most: int) -> list[int]:
    """Numbers from 2: powers of two first, then one and a half times them, then the others.

    >>> coarse_first(9)
    [2, 4, 8, 3, 6, 5, 7, 9]
    """

    def odd_part(n: int) -> int:
        return n // (n & -n)

    return sorted(range(2, most + 1), key=lambda n: (min(odd_part(n), 5), n))


@final
class TreeStart:
    """The best tree of a dynamic program over cuts.

    Args:
        network: Its layers.
        batch: Samples of the whole.
        seconds: CPU seconds of which the start takes shares; None for all that it is told to try, whatever the time.
        work: Network and system for the kernels.
        trial: Room for a tree.
        current: Receives the best tree.
    """

    def __init__(
        self,
        network: SegmentNetwork,
        batch: int,
        seconds: float | None,
        work: Workspace,
        trial: Tokens,
        current: Tokens,
    ) -> None:
        self.network, self.batch, self.seconds = network, batch, seconds
        self.work, self.trial, self.current = work, trial, current
        self.order = np.arange(len(network.layers), dtype=np.int64)
        self.first_choices = np.zeros(len(network.layers), np.int64)

    def find(self, longest: int) -> float:
        """Leave the best tree in `current`; returns its value, infinite where no batch of layers one after another fits.

        The order of the layers is that of the best tree when each is cut into few lengths.
        """
        begin = clock.cpu_seconds()
        seconds = float("inf") if self.seconds is None else max(START_SECONDS, self.seconds)
        best, kept = float("inf"), self.order
        for order in orders_of(self.network):
            self.order = order
            now = clock.cpu_seconds()
            if np.isfinite(best) and now - begin > ORDERS_SHARE * seconds:
                break
            options, costs = self._priced(longest, 1, (now, ORDERS_SHARE * seconds), SURE_LENGTHS, True)
            value = self._cut(1, options, costs, best)
            if value < best:
                best, kept = value, self.order
        self.order = kept
        aligned = self._aligned(best, seconds)
        if aligned < best - MUCH:
            seconds *= REST
        best = min(best, aligned)
        for root_groups in divisors(self.batch):
            sure = 0 if np.isfinite(best) else SURE_LENGTHS
            options, costs = self._priced(longest, root_groups, (begin, seconds), sure, False)
            best = min(best, self._cut(root_groups, options, costs, best))
        return best if np.isfinite(best) else self.flat()

    def _aligned(self, best: float, seconds: float) -> float:
        """Trees of layers cut alike; a better one than `best` is left in `current`. Returns the value of the best one (rule M56).

        Numbers of groups of the root go from the middle down and up until trees get worse. If one is better than `best`, those
        of the best two are taken again with further orders of the dimensions, at the price of time of the best one.
        """
        if len(self.work.problem.limits) > 1:
            return float("inf")
        start, many = AlignedStart(self.work, self.trial), divisors(self.batch)
        per_time = start.price_of_time(self.order, self.batch)
        values: dict[int, float] = {}
        goal, least, took, begin, price = self.work.goal, best, 0.0, clock.cpu_seconds(), per_time

        def found(groups: int, turn: int) -> float:
            nonlocal least, took, price
            began = clock.cpu_seconds()
            energy, spent = start.find(self.order, groups, turn, per_time)
            value = tree_value(self.work, self.trial) if np.isfinite(energy) else float("inf")
            if value < least - 1e-9:
                least, price = value, goal[1] / goal[0] * energy / max(spent, 1.0)
                moves.copy_tokens(self.trial, self.current)
            took = clock.cpu_seconds() - began
            return value

        def late() -> bool:
            return bool(values) and clock.cpu_seconds() + took > begin + ALIGNED_SHARE * seconds

        at, by = len(many) // 2, -1
        while 0 <= at < len(many) and not late():
            values[at] = found(many[at], start.turns[0])
            if by < 0 and (at == 0 or values[at] > values.get(at + 1, float("inf"))):
                at, by = len(many) // 2, 1
            elif by > 0 and values[at] > values[at - 1]:
                break
            at += by
        per_time = price
        for at in sorted(values, key=values.__getitem__)[: 2 if least < best else 0]:
            for turn in start.turns:
                if not late():
                    found(many[at], turn)
        return least

    def _cut(self, root_groups: int, options: IntArray, costs: FloatArray, best: float) -> float:
        """Cut the layers at what segments cost, at several prices of time; a better tree than `best` is left in `current`."""
        problem, goal, per_time = self.work.problem, self.work.goal, 1.0
        for _ in range(6):
            energy, spent = tree_search.cut_by_program(
                problem, costs, self.order, root_groups, options, per_time, self.first_choices, self.trial
            )
            if not np.isfinite(energy):
                break
            value = tree_value(self.work, self.trial)
            if value < best - 1e-9:
                best = value
                moves.copy_tokens(self.trial, self.current)
            ratio = goal[1] / goal[0]
            per_time = ratio * energy / max(spent, 1.0)  # times of small runs may be truncated to 0
        return best

    def _priced(
        self, longest: int, root_groups: int, window: tuple[float, float], sure: int, few: bool
    ) -> tuple[IntArray, FloatArray]:
        """Options of segments, and energy and time of each over all consecutive layers, lengths x layers x options x 2.

        Layers alone come first, then cuts in time and those of blocks, then cuts in space of layers and of shares; each kind until
        its share of the time is spent or none fits. Where the root has groups, cuts in time have none and there are none in space.

        Args:
            longest: Most layers of a cut in space.
            root_groups: Runs of every segment.
            window: CPU time at which it began, and seconds that shares are taken of.
            sure: Lengths of layers alone and cuts in time that are taken whatever the time.
            few: Take no more lengths than that, none of cuts in space of layers, and two of those of shares.
        """
        whole = root_groups == 1
        groups = divisors(self.batch) if whole else [1]
        most = min(LONGER_IN_TIME * longest, len(self.order))
        in_time, last = [(g, blocks) for g in groups for blocks in (0, 1)], START_SHARE if whole else ROOT_SHARE
        in_space, shares = list(range(2, min(longest, most) + 1)), list(SHARE_LENGTHS)
        if self.seconds is not None:
            shares += [n for n in coarse_first(most) if n > min(SHARES) and n not in SHARE_LENGTHS]
        kinds = (
            (tree_kernels.LEAF, [(1, 0)], [1], sure, 1.0),
            (
                tree_kernels.TIME,
                in_time,
                coarse_first(most)[: sure if few else most],
                sure,
                TIME_SHARE if whole else last,
            ),
            (tree_kernels.SPACE, [(g, 0) for g in groups], [] if few else in_space, 0, last),
            (
                tree_kernels.SPACE,
                [(g, n) for g in groups for n in SHARES],
                shares[: SURE_SHARES if few else most],
                0,
                last,
            ),
        )
        rows = [np.array([(kind, *row) for row in options], np.int64) for kind, options, *_ in kinds]
        together = np.concatenate(rows)
        costs: FloatArray = np.full((most, len(self.order), len(together), 2), np.inf)
        at, pace, (begin, seconds) = 0, 0.0, window
        for (kind, _, lengths, taken, share), options in zip(kinds, rows, strict=True):
            limits = begin + share * seconds, begin + max(share, ROOT_SHARE) * seconds
            if options[0, 0] == tree_kernels.SPACE and options[0, 2]:
                most_shares = clock.cpu_seconds() + SHARES_SHARE * seconds
                limits = min(limits[0], most_shares), min(limits[1], most_shares)
            if whole or kind != tree_kernels.SPACE:
                pace = self._price_kind(
                    root_groups, options, lengths, taken, limits, pace, costs[:, :, at : at + len(options)]
                )
            at += len(options)
        return together, costs

    def _price_kind(
        self,
        root_groups: int,
        kind: IntArray,
        lengths: list[int],
        sure: int,
        limits: tuple[float, float],
        pace: float,
        costs: FloatArray,
    ) -> float:
        """Price segments of one kind, length by length, until none fits any more.

        After the first `sure` lengths none begins after the first of two CPU times, nor is expected to end after the second: a
        layer of an option takes as long as one of the length before. That time is given as `pace` for the first, and returned.
        """
        known: dict[int, FloatArray] = {}
        most, per_layer = len(costs), pace * len(kind)
        for i, length in enumerate(lengths):
            began = clock.cpu_seconds()
            late = began > limits[0] or began + per_layer * length > limits[1]
            if length > most or (late and i >= sure):
                continue
            below = max((done for done in known if done < length), default=length)
            priced: FloatArray = np.full(costs.shape[1:], np.inf)
            found = tree_search.price_segments(
                self.work,
                self.trial,
                self.order,
                root_groups,
                kind,
                length,
                length - below,
                known.get(below, priced),
                priced,
            )
            costs[length - 1] = known[length] = priced
            per_layer = (clock.cpu_seconds() - began) / length
            if not found:
                most = length
        return per_layer / len(kind)

    def flat(self) -> float:
        """Leave layers one after another in the largest batch that fits in `current`; returns its value, infinite where none does."""
        for groups in divisors(self.batch):
            tree_search.write_flat(self.current, self.order, groups)
            value = tree_value(self.work, self.current)
            if np.isfinite(value):
                return value
        return float("inf")
