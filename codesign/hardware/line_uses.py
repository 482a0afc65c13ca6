"""Lines of the scratchpad that a mapping asks for, and how many full lines would do: what the layout costs (rule K3)."""

import math

from codesign.arch.architecture import Links
from codesign.hardware.layout import Place
from codesign.hardware.nest_plan import NestPlan
from codesign.hardware.parameters import PARTIAL_BYTES
from codesign.mapping.layout import Digit, TensorLayout
from codesign.timing.simulate import LineUse


def layout_of(plan: NestPlan, port: str, places: tuple[Place, ...]) -> TensorLayout:
    """Places of a tensor as a mapping file says them."""
    tensor, sizes = plan.tensors[port], plan.computation.sizes
    digits = []
    for place in places:
        name, extent = str(tensor.axes[place.axis]), tensor.axes[place.axis].extent(sizes)
        whole = place.count == extent // place.step
        digits.append(Digit(name, place.step, None if whole else place.count))
    return TensorLayout(tensor.name, tuple(digits))


def line_uses(plan: NestPlan) -> tuple[LineUse, ...]:
    """By tensor: operands' lines that are read, results' lines that are written by the array."""
    line = plan.p.line_bytes
    found = []
    for port in ("A", "B", "O"):
        times, (words, _) = accesses(plan, port), step_words(plan, port)
        if port == "O":
            at_once, full = len(plan.emissions.lines), -(-words * PARTIAL_BYTES // line)
        else:
            at_once = plan.lines(port)
            times = int(times / plan.groups[port])
            full = -(-plan.groups[port] * words * plan.chip_bytes(port) // line)
        layout = str(layout_of(plan, port, plan.places[port]))
        found.append(LineUse(plan.tensors[port].name, layout, times * at_once, times * full))
    return tuple(found)


def step_words(plan: NestPlan, port: str) -> tuple[int, int]:
    """Words of a tensor that the array moves in a step, different ones or every element its own, and how often the busiest of them."""
    times = plan.times(port)
    return (sum(times.values()), max(times.values())) if plan.p.links is Links.NONE else (len(times), 1)


def accesses(plan: NestPlan, port: str) -> int:
    """How often the array asks for all lines of a step: every iteration, or once for each word of a local tile that moves."""
    if port not in plan.p.local:
        return math.prod(loop.factor for loop in plan.loops)
    moves = plan.changes(port, plan.loc(port), plan.n_seq)
    times, before = 1, 1
    for loop, moved in zip(plan.loops[: plan.n_seq], moves, strict=True):
        times += (loop.factor - 1) * before * moved
        before *= loop.factor
    return times * math.prod(plan.local_tile(port))
