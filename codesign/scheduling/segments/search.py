"""Searching the best tree of segments of a network on a system (docs/explanation/many-cores.md, rules M51 to M54)."""

from dataclasses import dataclass
from itertools import permutations
from typing import final

import numpy as np

from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.factors import divisors
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.core.rng import RandomState, make_state
from codesign.scheduling.segments.evaluate import Evaluation, Evaluator
from codesign.scheduling.segments.kernels import core_mapper, fabric, moves, tree_search
from codesign.scheduling.segments.kernels import tree as tree_kernels
from codesign.scheduling.segments.kernels.machine import ORDERS, RANKS, Caches, Problem, Scratch, Tokens
from codesign.scheduling.segments.kernels.placed_leaf import ALL_KINDS, ONE_KIND
from codesign.scheduling.segments.kernels.segment_cost import tree_cost
from codesign.scheduling.segments.layers import SegmentNetwork
from codesign.scheduling.segments.leaf_parts import EXACT_ENTRIES, leaf_with_parts, map_tiles
from codesign.scheduling.segments.segment_tree import Cut, CutKind, Leaf, Node, leaves
from codesign.scheduling.segments.system_arrays import mean_way

MOST_EDGES = 60
"""Producers of one layer that the search can tell apart."""

MOVE_WEIGHTS = (30, 12, 4, 6, 12, 6, 10, 8, 12, 5, 5, 5, 6, 5)
"""Of the moves in the order of `kernels.moves`."""

SLOT_BYTES = 96 * 2**20
"""Memory for placed leaves."""

MOST_MAPPED = 8
"""Times that the best tree is mapped exactly and looked at again after one piece of annealing."""

SEGMENT_ENTRIES = 2**17
CHUNK = 50
"""Steps of annealing before the first look at the clock; later ones are a hundredth of the time apart."""

LONG = 1500
"""Trees for each layer from which a search is long; with n times fewer it starts at 1 / sqrt(n) of the temperature."""

FEW = 15
"""Layers up to which a search is at its full temperature: a layer is a lesser share of the goal where there are more."""

LEAST_FALL = 10.0
"""Temperature at the start over that at the end, at least."""

RETURN_SHARE = 0.85
"""Share of the annealing after which it goes on from the best tree."""

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

ORDERS_SHARE = 0.2
"""Share of the time after which the start tries no further order of the layers."""

SURE_SHARES = 2
"""Lengths of cuts in space of shares that are tried with every order."""

LONGER_IN_TIME = 4
"""Layers of a cut in time of the start, over those of a cut in space at most."""


@final
class NothingFitsError(UserError):
    """No tree of the network fits the buffers of the cores: a result, not a mistake."""


@final
@dataclass(frozen=True)
class SearchSettings:
    """How long and how to search.

    Args:
        seconds: CPU seconds.
        steps: Trees tried; None for what the seconds allow. With it results do not depend on the machine.
        seed: Of the random numbers.
        energy_power: Exponent of energy in the goal.
        time_power: Exponent of time.
        hot: Temperature at the start of a long search of few layers: relative increase of the goal that is accepted with probability 1/e.
        cold: At the end.
        longest: Most layers of a cut in space of the start; cuts in time take up to four times as many.
        least_use: Share of core time that a space cut must use.
    """

    seconds: float = 10.0
    steps: int | None = None
    seed: int = 0
    energy_power: float = 1.0
    time_power: float = 1.0
    hot: float = 0.04
    cold: float = 0.0002
    longest: int = 8
    least_use: float = 0.75


@final
@dataclass(frozen=True)
class Searched:
    """What a search found.

    Attributes:
        evaluation: The best tree with its figures.
        start_edp: Energy x time of the start.
        steps: Trees tried.
        segments: Segments evaluated among them.
        seconds: CPU seconds.
    """

    evaluation: Evaluation
    start_edp: float
    steps: int
    segments: int
    seconds: float


def partitions(cores: int) -> tuple[IntArray, IntArray]:
    """All ways to write 1 to `cores` as products of four numbers: where each number's begin, and the rows."""
    start: list[int] = [0, 0]
    rows: list[tuple[int, int, int, int]] = []
    for n in range(1, cores + 1):
        for a in divisors(n):
            for b in divisors(n // a):
                rows.extend((a, b, c, n // a // b // c) for c in divisors(n // a // b))
        start.append(len(rows))
    return np.array(start, np.int64), np.array(rows, np.int64)


def layer_kin(evaluator: Evaluator) -> IntArray:
    """First layer of equal shape, and first one whose producers have equal channels too, layers x 2."""
    table, layers = evaluator.table, evaluator.network.layers
    shaped: dict[bytes, int] = {}
    fed: dict[tuple[object, ...], int] = {}
    kin = np.empty((len(layers), 2), np.int64)
    for i, layer in enumerate(layers):
        row = table[i].tobytes()
        widths = (tuple(layers[p].K for p in read) for read in (layer.inputs, layer.weight_inputs))
        kin[i] = shaped.setdefault(row, i), fed.setdefault((row, *widths), i)
    return kin


def problem_arrays(evaluator: Evaluator, batch: int, least_use: float) -> Problem:
    """A network on a system in the kernels' form.

    Raises:
        UserError: A layer reads too many others.
    """
    system, network, table = evaluator.system, evaluator.network, evaluator.table
    readers: list[list[int]] = [[] for _ in network.layers]
    for i, layer in enumerate(network.layers):
        both = {*layer.inputs, *layer.weight_inputs}
        if len(layer.inputs) + len(layer.weight_inputs) > MOST_EDGES:
            raise UserError(f"layer {layer.name!r} reads {len(both)} layers, at most {MOST_EDGES} are searched")
        for producer in both:
            readers[producer].append(i)
    reader_start = np.cumsum([0, *map(len, readers)]).astype(np.int64)
    reader = np.array([*(i for found in readers for i in found), 0], np.int64)
    start, rows = partitions(system.cores)
    lane_pj = system.dies.lanes * int(system.dies.mw_per_lane)
    die_pj = 0.0 if system.dies.lanes else system.dies.pj_per_word_hop
    prices = [system.links.pj_per_word_hop, die_pj, system.memories.pj_per_word, lane_pj, system.clock_ghz]
    prices.append(mean_way(system))
    big = [[core.big.bytes, core.output_reserve_bytes] for core in evaluator.records]
    mapped = [int(kind.architecture is not None) for kind in evaluator.core_kinds]
    exact = EXACT_ENTRIES if any(mapped) else 1
    return Problem(
        evaluator.fabric,
        evaluator.cores,
        evaluator.kind_start,
        evaluator.site_kind,
        np.zeros(exact, np.int64),
        np.zeros((exact, core_mapper.FIGURES + 1)),
        np.array(mapped, np.int64),
        table,
        layer_kin(evaluator),
        evaluator.edges,
        reader_start,
        reader,
        evaluator.unit_times,
        evaluator.unit_pj,
        start,
        rows,
        np.array(list(permutations(range(4))), np.int64),
        np.array(divisors(batch), np.int64),
        np.array(prices, np.float64),
        np.array(big, np.int64),
        evaluator.capacity,
        evaluator.reserve,
        int(evaluator.semantics.leaf_links),
        least_use,
    )


def make_caches(problem: Problem) -> Caches:
    """Empty caches; what is not used takes no memory."""
    layers, batches = len(problem.table), len(problem.batches)
    rows = layers * len(problem.limits)
    cores = problem.fabric.width * problem.fabric.height
    sites = (problem.fabric.width + 2) * problem.fabric.height
    counter = fabric.counter_size(problem.fabric)
    slot = 8 * (3 * cores * 8 + 3 * (cores + 1) + 3 * cores + counter + 3 * sites + 8)
    slots = min(max(2 * layers, SLOT_BYTES // slot), 2**14)
    return Caches(
        np.full((rows, batches, cores + 1, RANKS), -2, np.int64),
        np.zeros((rows, batches, len(problem.parts)), np.int64),
        np.zeros((rows, batches, len(problem.parts), core_mapper.FIGURES + 1)),
        np.zeros(slots, np.int64),
        np.zeros(slots, np.int64),
        np.zeros((slots, 3), np.int64),
        np.zeros((slots, 3, cores, 8), np.int64),
        np.zeros((slots, 3, cores + 1), np.int64),
        np.zeros((slots, 3, cores), np.int64),
        np.zeros((slots, counter), np.int64),
        np.zeros((slots, 3)),
        np.zeros((slots, 3, sites), np.int64),
        np.zeros(SEGMENT_ENTRIES, np.int64),
        np.zeros((SEGMENT_ENTRIES, 2)),
        np.zeros(4, np.int64),
    )


def make_tokens(layers: int) -> Tokens:
    """Room for a tree as tokens."""
    room = 3 * layers + 8
    columns = [np.zeros(room, np.int64) for _ in range(5)]
    return Tokens._make([*columns, np.zeros(1, np.int64)])


def make_scratch(problem: Problem) -> Scratch:
    """Room for what an evaluation computes."""
    layers = len(problem.table)
    nodes = 3 * layers + 10
    sites = (problem.fabric.width + 2) * problem.fabric.height
    names = [name for name in tree_kernels.Tree._fields if name != "unit_time"]
    tree = tree_kernels.Tree(
        unit_time=np.zeros((nodes, len(problem.limits))), **{name: np.zeros(nodes, np.int64) for name in names}
    )
    row = [np.zeros(layers + 1, np.int64) for _ in range(7)]
    row[4][:] = -1
    return Scratch._make(
        [
            tree,
            np.zeros((nodes, fabric.counter_size(problem.fabric)), np.int64),
            np.zeros((nodes, 1)),
            np.zeros(nodes, np.int64),
            np.zeros(nodes, np.int64),
            np.zeros((nodes, 3, sites), np.int64),
            *row,
            np.zeros(nodes, np.int64),
            np.zeros(nodes, np.int64),
        ]
    )


def orders_of(network: SegmentNetwork) -> list[IntArray]:
    """Orders of the layers that the start may cut, each with producers first: as given, by distance to the end, depth first.

    By distance, layers that may run side by side stand together. Depth first, a layer follows the last of its producers.
    """
    n = len(network.layers)
    read = [sorted({*layer.inputs, *layer.weight_inputs}) for layer in network.layers]
    distance, readers, missing = [0] * n, [[] for _ in range(n)], [len(r) for r in read]  # type: tuple[list[int], list[list[int]], list[int]]
    for i in reversed(range(n)):
        for producer in read[i]:
            distance[producer] = max(distance[producer], distance[i] + 1)
            readers[producer].append(i)
    late = sorted(range(n), key=lambda i: (-distance[i], i))
    deep: list[int] = []
    ready = [i for i in reversed(range(n)) if not read[i]]
    while ready:
        layer = ready.pop()
        deep.append(layer)
        for reader in readers[layer]:
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
class TreeSearch:
    """A search of one network on one system.

    Args:
        evaluator: Network, system and rules.
        batch: Samples of the whole.
        settings: How long and how.
    """

    def __init__(self, evaluator: Evaluator, batch: int, settings: SearchSettings) -> None:
        self.evaluator, self.batch, self.settings = evaluator, batch, settings
        self.problem = problem_arrays(evaluator, batch, settings.least_use)
        self.caches, self.scratch = make_caches(self.problem), make_scratch(self.problem)
        n = len(evaluator.network.layers)
        self.current, self.trial, self.room, self.best = (make_tokens(n) for _ in range(4))
        self.goal = np.array([settings.energy_power, settings.time_power])
        self.order = np.arange(n, dtype=np.int64)
        self.steps = 0
        self.weights = np.array(MOVE_WEIGHTS, np.int64)
        self.mapped_best, self.mapped_tree = make_tokens(n), None  # type: Tokens, Cut | None
        self.mapped_value = float("inf")

    def value(self, tokens: Tokens) -> float:
        """Logarithm of the goal of a tree; infinite where it is no scheme."""
        good, energy, spent = tree_cost(self.problem, self.caches, tokens, self.scratch)
        return float(tree_search.value_of(energy, spent, self.goal)) if good else float("inf")

    def start(self, longest: int) -> float:
        """The best tree of the dynamic program over cuts, left in `current`; returns its value.

        The order of the layers is that of the best tree when each is cut into few lengths.

        Raises:
            NothingFitsError: No batch of layers one after another fits.
        """
        begin = clock.cpu_seconds()
        seconds = max(START_SECONDS, self.settings.seconds) if self.settings.steps is None else float("inf")
        best, kept = float("inf"), self.order
        for order in orders_of(self.evaluator.network):
            self.order = order
            now = clock.cpu_seconds()
            if np.isfinite(best) and now - begin > ORDERS_SHARE * seconds:
                break
            options, costs = self._priced(longest, 1, (now, ORDERS_SHARE * seconds), SURE_LENGTHS, True)
            value = self._cut(1, options, costs, best)
            if value < best:
                best, kept = value, self.order
        self.order = kept
        for root_groups in divisors(self.batch):
            sure = 0 if np.isfinite(best) else SURE_LENGTHS
            options, costs = self._priced(longest, root_groups, (begin, seconds), sure, False)
            best = min(best, self._cut(root_groups, options, costs, best))
        return best if np.isfinite(best) else self.flat()

    def _cut(self, root_groups: int, options: IntArray, costs: FloatArray, best: float) -> float:
        """Cut the layers at what segments cost, at several prices of time; a better tree than `best` is left in `current`."""
        per_time = 1.0
        for _ in range(6):
            energy, spent = tree_search.cut_by_program(
                self.problem, costs, self.order, root_groups, options, per_time, self.trial
            )
            if not np.isfinite(energy):
                break
            value = self.value(self.trial)
            if value < best - 1e-9:
                best = value
                moves.copy_tokens(self.trial, self.current)
            ratio = self.settings.time_power / self.settings.energy_power
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
        if self.settings.steps is None:
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
                self.problem,
                self.caches,
                self.trial,
                self.scratch,
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
        """Layers one after another in the largest batch that fits, left in `current`; returns its value.

        Raises:
            NothingFitsError: None does.
        """
        for groups in divisors(self.batch):
            tree_search.write_flat(self.current, self.order, groups)
            value = self.value(self.current)
            if np.isfinite(value):
                return value
        raise NothingFitsError(
            "no layer-by-layer schedule fits the buffers of the cores", where=f"system {self.evaluator.system.name!r}"
        )

    def run(self) -> Searched:
        """Search until the CPU seconds are spent."""
        begin = clock.cpu_seconds()
        settings, state = self.settings, make_state(self.settings.seed)
        value = self.start(settings.longest)
        if self.evaluator.kinds > 1:
            value = self._choose_kinds(value)
        first = value
        moves.copy_tokens(self.current, self.best)
        schedule = np.array([value, value, settings.hot, settings.hot])
        if self.problem.mapped.any():
            self._map_best(schedule)
        spent = clock.cpu_seconds() - begin
        opened = spent
        steps, fixed = CHUNK, settings.steps
        if fixed is not None:
            steps = max(1, fixed // 100)
        expected = float(steps if fixed is None else fixed)
        while self.steps < fixed if fixed is not None else spent < settings.seconds:
            share = (spent - opened) / max(settings.seconds - opened, 1e-9) if fixed is None else self.steps / fixed
            hot = max(settings.hot * self._warmth(expected), LEAST_FALL * settings.cold)
            schedule[2:] = hot * (settings.cold / hot) ** share
            if share > RETURN_SHARE:
                moves.copy_tokens(self.best, self.current)
                schedule[0] = schedule[1]
            self._anneal(schedule, steps, state)
            if self.problem.mapped.any():
                self._map_best(schedule)
            before, spent = spent, clock.cpu_seconds() - begin
            self.steps += steps
            if fixed is None:
                pace = steps / max(spent - before, 1e-9)
                expected = self.steps + pace * (settings.seconds - spent)
                steps = max(CHUNK, int(pace * min(settings.seconds / 100, settings.seconds - spent)))
        tree = self.tree(self.best) if self.mapped_tree is None else self.mapped_tree
        powers = settings.energy_power + settings.time_power
        return Searched(
            self.evaluator.evaluate(tree),
            float(np.exp(first * 2 / powers)),
            self.steps,
            int(self.caches.counts[0]),
            clock.cpu_seconds() - begin,
        )

    def _choose_kinds(self, value: float) -> float:
        """Give each layer of `current` in turn the kinds of cores with which the whole tree is best; returns its value (rule M123)."""
        for at in range(int(self.current.length[0])):
            if self.current.kind[at] != tree_kernels.LEAF:
                continue
            best = int(self.current.choice[at])
            for subset in range(ALL_KINDS, ONE_KIND + self.evaluator.kinds):
                self.current.choice[at] = subset * ORDERS * RANKS
                found = self.value(self.current)
                if found < value - 1e-9:
                    value, best = found, subset * ORDERS * RANKS
            self.current.choice[at] = best
        return value

    def _map_best(self, schedule: FloatArray) -> None:
        """Map the tiles of the best tree on architectures exactly, and go on with what is known then (rule M125).

        Trees are searched by estimates where tiles are not mapped. The best of those whose tiles all are is kept apart.
        """
        for _ in range(MOST_MAPPED):
            new = map_tiles(self.evaluator, self.problem, self.tree(self.best))
            if new:
                for held in (self.caches.leaf_keys, self.caches.segment_keys):
                    held[:] = 0
            value = self.value(self.best)
            if not new and value < self.mapped_value:
                self.mapped_value, self.mapped_tree = value, self.tree(self.best)
                moves.copy_tokens(self.best, self.mapped_best)
            elif self.mapped_tree is not None and value > self.mapped_value:
                moves.copy_tokens(self.mapped_best, self.best)
            if not new:
                break
        schedule[1] = self.value(self.best)
        schedule[0] = self.value(self.current)
        if not np.isfinite(schedule[0]):
            moves.copy_tokens(self.best, self.current)
            schedule[0] = schedule[1]

    def _warmth(self, expected: float) -> float:
        """Share of the temperature at which a search of so many trees starts."""
        layers = len(self.order)
        return float(min(1.0, FEW / layers) * min(1.0, expected / (LONG * layers)) ** 0.5)

    def _anneal(self, schedule: FloatArray, steps: int, state: RandomState) -> None:
        tree_search.anneal(
            self.problem,
            self.caches,
            self.scratch,
            self.current,
            self.trial,
            self.room,
            self.best,
            self.weights,
            self.goal,
            schedule,
            steps,
            state,
        )

    def tree(self, tokens: Tokens) -> Cut:
        """A tree of tokens as a value, with partitions and orders in full."""
        node, end = self._node(tokens, 0, self.batch)
        if not isinstance(node, Cut) or end != tokens.length[0]:
            raise AssertionError("the tokens are no tree")
        return self._with_parts(node)

    def _node(self, tokens: Tokens, at: int, batch: int) -> tuple[Node, int]:
        if tokens.kind[at] == tree_kernels.LEAF:
            return Leaf(int(tokens.layer[at]), batch, (1, 1, 1, 1), (int(tokens.choice[at]),)), at + 1
        end, child, children = at + int(tokens.size[at]), at + 1, []
        while child < end:
            node, child = self._node(tokens, child, batch // int(tokens.groups[at]))
            children.append(node)
        return Cut(CutKind(int(tokens.kind[at])), batch, tuple(children)), end

    def _with_parts(self, root: Cut) -> Cut:
        """Look up the partitions that the choices stand for, now that the cores are known."""
        shape = self.evaluator.shape(root)
        found = {}
        for node, leaf in zip(np.flatnonzero(shape.kind == tree_kernels.LEAF), leaves(root), strict=True):
            cores = int(shape.core_past[node] - shape.core_first[node])
            first = int(shape.core_first[node])
            found[leaf.layer] = leaf_with_parts(self.evaluator, self.problem, self.caches, leaf, first, cores)

        def filled(node: Node) -> Node:
            if isinstance(node, Leaf):
                return found[node.layer]
            return Cut(node.kind, node.batch, tuple(filled(child) for child in node.children))

        return Cut(root.kind, root.batch, tuple(filled(child) for child in root.children))
