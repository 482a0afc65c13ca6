"""What the SALSA experiments share: layers unrolled on an Eyeriss-like accelerator under the zigzag semantics."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from codesign.core import clock
from codesign.core.files import read_text
from codesign.core.goals import Budget, Objective
from codesign.core.rng import make_state
from codesign.cost.zigzag.accelerator import Accelerator, accelerator_from_zigzag
from codesign.cost.zigzag.cost import Loop
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.formats.documents import parse_yaml
from codesign.mappers.loop_order.compiled_orders import anneal_orders, enumerate_orders
from codesign.mappers.loop_order.loma import LomaMapper
from codesign.mappers.loop_order.salsa import SalsaMapper
from codesign.mappers.loop_order.unrolling_choice import choose_unrolling
from codesign.mappers.loop_order.zigzag_search import OrderSearch, search_exhaustively
from codesign.mappers.moves import Cooling
from codesign.mapping.nest import FloatArray
from experiments.mappers_common import bounds_text, layers

ACCELERATOR = Path(__file__).parents[1] / "tests" / "data" / "zigzag" / "inputs" / "eyeriss_v1.yaml"
"""The paper's topology: 14 x 12 elements with a scratchpad for each operand, a buffer for inputs and outputs, DRAM; 16 bits."""


@cache
def accelerator(path: Path = ACCELERATOR) -> Accelerator:
    """An accelerator in ZigZag's form."""
    (value,) = parse_yaml(read_text(path), str(path))
    return accelerator_from_zigzag(value, str(path))


@cache
def unrolled(network: str) -> tuple[tuple[str, float, UnrolledLayer], ...]:
    """(bounds, occurrences, layer) of every distinct layer of a network, under the unrolling that `choose_unrolling` picks."""
    return tuple(
        (bounds_text(g), g.count, choose_unrolling(g.computation, accelerator(), Objective.ENERGY))
        for g in layers(network)
    )


def layer_of(network: str, number: int) -> UnrolledLayer:
    """The layer of that number (from 1) of a network."""
    return unrolled(network)[number - 1][2]


PAPER = SalsaMapper(iterations=1_000, restarts=1, temperature=0.05, rho=0.999, engine="annealing")
"""SALSA as the paper ran it; the defaults of `SalsaMapper` restart and choose their engine."""


def warm_up() -> None:
    """Compile both engines, so that no figure counts it."""
    layer = layer_of("resnet34", 12)
    for mapper in (PAPER, LomaMapper(lpf_limit=3)):
        mapper.map_orders(layer, Objective.ENERGY, budget=Budget(), seed=0)


def visited_values(
    layer: UnrolledLayer, loops: Sequence[Loop], objective: Objective, mapper: SalsaMapper, seed: int
) -> FloatArray:
    """What annealing scores, in order, ``restarts * iterations`` values (infinite where tiles do not fit).

    With one iteration a restart these are the values of random orders.
    """
    search = OrderSearch.of(layer, loops, objective, even=False)
    symbols, best = search.symbols.copy(), search.symbols.copy()
    cooling = Cooling(mapper.iterations, float(mapper.temperature), float(mapper.rho))
    values = np.empty((mapper.restarts, mapper.iterations))
    for run in range(mapper.restarts):
        anneal_orders(search.scorer, symbols, best, np.inf, cooling, make_state(seed, run), values[run])
    return values.ravel()


def measure_tau_s(layer: UnrolledLayer, loops: Sequence[Loop], objective: Objective, *, even: bool = False) -> float:
    """CPU seconds that scoring one order takes on this machine: the paper's tau, from up to 2,000 orders after a first one."""
    search_exhaustively(layer, loops, objective, Budget(evaluations=1), even=even, whole_space=False)
    search = OrderSearch.of(layer, loops, objective, even=even)
    symbols, best = search.symbols.copy(), search.symbols.copy()
    started = clock.cpu_seconds()
    _, scored, _ = enumerate_orders(search.scorer, symbols, best, np.inf, 0, 2_000)
    return (clock.cpu_seconds() - started) / scored
