"""What the SALSA experiments share: layers unrolled on an Eyeriss-like accelerator under the zigzag semantics."""

from functools import cache
from pathlib import Path

from codesign.core.files import read_text
from codesign.core.goals import Budget, Objective
from codesign.cost.zigzag.accelerator import Accelerator, accelerator_from_zigzag
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.formats.documents import parse_yaml
from codesign.mappers.loop_order.loma import LomaMapper
from codesign.mappers.loop_order.salsa import SalsaMapper
from codesign.mappers.loop_order.unrolling_choice import choose_unrolling
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
