"""What a search over the loop orders of one unrolled layer gives under the zigzag semantics, and the search of all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from codesign.arch.provenance import provenance_json
from codesign.core import clock
from codesign.core.goals import Budget, Objective, Proof
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Infeasible
from codesign.cost.zigzag.arrays import Layer, encode
from codesign.cost.zigzag.cost import AllocatedOrder, Loop, Workspace, ZigzagCost, evaluate, load_order, make_workspace
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mappers.driver import OBJECTIVE_CODE
from codesign.mappers.loop_order.allocation import FITS, allocate, least_bits
from codesign.mappers.loop_order.compiled_orders import OrderScorer, enumerate_orders
from codesign.mappers.loop_order.factors import count_orders
from codesign.mappers.protocol import result_json
from codesign.mapping.nest import IntArray

_CHUNK = 20_000
"""Orders between two looks at the clock."""


@dataclass(frozen=True)
class OrderResult:
    """The best order found.

    Args:
        layer: What was mapped.
        mapping: The order and its allocation; None when none fits.
        cost: Its cost.
        infeasible: Why there is none.
        evaluated: Orders scored.
        seconds: Wall-clock time.
        proof: Of `codesign.mappers.loop_order.exact_orders`; NONE otherwise.
        seed: Of the random choices; None when none were made.
        engine: ``exhaustive``, ``annealing`` or ``sweep``.
        orders: Different orders there are.
        gap: What the proof leaves; None where nothing is proven.
        complete: Whether every order of the prime factors was scored, each with the cuts of rule Z4. Other cuts may be
            better, so this is no proof.
    """

    layer: UnrolledLayer
    mapping: AllocatedOrder | None
    cost: ZigzagCost | None
    infeasible: Infeasible | None
    evaluated: int
    seconds: float
    proof: Proof
    seed: int | None
    engine: str
    orders: int
    gap: float | None = None
    complete: bool = False

    def to_json(self) -> JsonObject:
        """The form `codesign map --semantics zigzag --format json` prints."""
        tail: JsonObject = {
            "evaluated": self.evaluated,
            "seconds": self.seconds,
            "proof": self.proof.value,
            "gap": self.gap,
            "seed": self.seed,
            "engine": self.engine,
            "orders": self.orders,
            "complete": self.complete,
            "provenance": provenance_json(None, ()),
        }
        mapping = None if self.mapping is None else self.mapping_json(self.mapping)
        return result_json(self.cost, mapping, self.infeasible, tail)

    def mapping_json(self, mapping: AllocatedOrder) -> JsonObject:
        """Spatial loops, the order, and the loops that each tensor keeps in each memory."""
        tensors = self.layer.computation.tensors
        memories = [
            [self.layer.accelerator.memories[m].name for m in self.layer.accelerator.chain(t.role)] for t in tensors
        ]
        return {
            "spatial": {array: dict(loops) for array, loops in self.layer.unrolling},
            "loop_order_inner_to_outer": [list(loop) for loop in mapping.loops],
            "memory_levels": {t.name: names for t, names in zip(tensors, memories, strict=True)},
            "allocation": {
                t.name: [[list(loop) for loop in level] for level in mapping.kept(i)] for i, t in enumerate(tensors)
            },
        }


@dataclass(frozen=True)
class OrderSearch:
    """A layer ready for compiled search.

    Args:
        scorer: It, encoded, with room to score orders.
        symbols: ``N`` the first order lexicographically, as rows of `OrderScorer.kinds`.
    """

    layer: UnrolledLayer
    scorer: OrderScorer
    symbols: IntArray

    @classmethod
    def of(cls, layer: UnrolledLayer, loops: Sequence[Loop], objective: Objective, *, even: bool) -> "OrderSearch":
        """Encode a layer whose orders consist of these loops."""
        arrays = encode(layer)
        different = sorted(set(loops))
        dims = layer.computation.dims
        kinds = np.array([(dims.index(dim), factor) for dim, factor in different], np.int64).reshape(-1, 2)
        symbols = np.array(sorted(different.index(loop) for loop in loops), np.int64)
        work = make_workspace(arrays, len(loops))
        return cls(layer, OrderScorer(arrays, work, kinds, even, OBJECTIVE_CODE[objective]), symbols)

    def loops(self, symbols: IntArray) -> tuple[Loop, ...]:
        """An order in words."""
        return tuple((self.layer.computation.dims[d], int(f)) for d, f in self.scorer.kinds[symbols])


def search_exhaustively(
    layer: UnrolledLayer, loops: Sequence[Loop], objective: Objective, budget: Budget, *, even: bool, whole_space: bool
) -> OrderResult:
    """Score every order of the loops, as far as the budget goes; `whole_space` says whether the loops are prime."""
    started = clock.wall_seconds()
    search = OrderSearch.of(layer, loops, objective, even=even)
    symbols, best, value = search.symbols.copy(), search.symbols.copy(), np.inf
    evaluated = start = 0
    while start >= 0:
        chunk = _CHUNK if budget.evaluations is None else min(_CHUNK, budget.evaluations - evaluated)
        value, scored, start = enumerate_orders(search.scorer, symbols, best, value, start, chunk)
        evaluated += scored
        if clock.is_spent(budget, started, evaluated):
            break
    found = result_of(search, best, evaluated, started, None, "exhaustive")
    return replace(found, complete=start < 0 and whole_space)


def read_allocation(arrays: Layer, work: Workspace, loops: tuple[Loop, ...]) -> AllocatedOrder:
    """The allocation that stands in the workspace, as readable values."""
    cuts = [tuple(int(c) for c in work.allocation.cut[t, : arrays.n_levels[t]]) for t in range(len(arrays.n_levels))]
    return AllocatedOrder(loops, tuple(cuts))


def result_of(
    search: OrderSearch, best: IntArray, evaluated: int, started: float, seed: int | None, engine: str
) -> OrderResult:
    """The result of a search whose best order is this one; without a mapping where no tiles fit."""
    loops, arrays, work = search.loops(best), search.scorer.layer, search.scorer.work
    load_order(search.layer, arrays, work, loops)
    memory = allocate(arrays, work.order, search.scorer.even, work.allocation)
    mapping = cost = infeasible = None
    if memory == FITS:
        mapping = read_allocation(arrays, work, loops)
        cost = evaluate(search.layer, mapping)
    else:
        item = search.layer.accelerator.memories[memory]
        bits = float(least_bits(arrays, work.order, work.allocation, memory))
        short = "the smallest tiles that the unrolling allows do not fit"
        infeasible = Infeasible(f"capacity of memory {item.name!r}", bits, float(item.usable_bits), "bits", short)
    seconds = clock.wall_seconds() - started
    orders = count_orders(search.loops(search.symbols))
    return OrderResult(search.layer, mapping, cost, infeasible, evaluated, seconds, Proof.NONE, seed, engine, orders)
