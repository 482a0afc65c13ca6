"""The analytical model with a generated machine's own ports, so that no machine is faster than its analytical cycles (rule K7).

The cost model's DRAM is a channel that opens a row for every burst (H6) and takes turns (L4), its scratchpad one port each way (L2). A generated
machine has bursts under way, a channel each way, and more ports. This module says what those can move at most.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from codesign.arch.architecture import Architecture, LevelKind, Links, Ports
from codesign.hardware.line_uses import accesses, step_words
from codesign.hardware.memory_timing import PLAIN_MEMORY, MemoryTiming
from codesign.hardware.nest_plan import NestPlan
from codesign.hardware.parameters import LOCAL_WORD_BYTES, PARTIAL_BYTES, WORD_BYTES, Parameters
from codesign.hardware.port_counts import PortCounts, box_bytes
from codesign.hardware.streams import CommandShape, CoreImage
from codesign.hardware.words import Command
from codesign.timing.table import Timing

READ_PORTS, WRITE_PORTS = 2, 2
"""Ports of the scratchpad: for reading operands and old sums (one for both with one burst under way), for writing results and what is loaded.

The DMA engine's port for reading is not among them: the cost model counts no reads for results that leave.
"""


@dataclass(frozen=True)
class DramSide:
    """What a machine and its memory do at the DRAM port.

    Args:
        bus_bytes: Of a beat.
        burst_bytes: Of the longest burst.
        latency_cycles: From a request to its first beat.
        under_way: Bursts of an engine at most.
    """

    bus_bytes: int
    burst_bytes: int
    latency_cycles: int
    under_way: int

    @property
    def share(self) -> float:
        """Bursts under way over those that hide the latency: N bursts of b beats leave in latency + b cycles at best."""
        beats = self.burst_bytes / self.bus_bytes
        return self.under_way * beats / (beats + self.latency_cycles)

    @property
    def bytes_per_cycle(self) -> float:
        """What a channel moves at most. With one burst under way it is H6: ``bus * b / (b + latency)``.

        >>> DramSide(16, 256, 14, 1).bytes_per_cycle
        8.533333333333333
        >>> DramSide(16, 64, 14, 2).bytes_per_cycle, DramSide(16, 256, 14, 16).bytes_per_cycle
        (7.111111111111111, 16.0)
        """
        return self.bus_bytes * min(1.0, self.share)

    def cycles(self, moved_bytes: float) -> float:
        """Cycles of a run that moves so many bytes through a channel: those and the latencies that nothing hides.

        Nothing is computed before the first word came, and nothing is stored before that: two latencies beside what goes on between. Where
        bursts wait for each other, their chain holds one of the two already.
        """
        alone = moved_bytes / self.bus_bytes + 2 * self.latency_cycles
        return max(alone, moved_bytes / (self.bus_bytes * self.share) + self.latency_cycles)

    @property
    def ramp_cycles(self) -> int:
        """Of every run, beside what the busiest resource needs, whatever the burst's length."""
        hidden = self.under_way > self.latency_cycles  # N b >= b + latency for every b >= 1
        return self.latency_cycles * (2 if hidden else 1)


def side_of_machine(p: Parameters, memory: MemoryTiming = PLAIN_MEMORY) -> DramSide:
    """Of a machine beside a memory."""
    return DramSide(p.bus_bytes, p.burst_bytes, memory.latency_cycles, memory.under_way(p.outstanding))


def side_of_table(timing: Timing) -> DramSide:
    """Of a timing table of generated machines."""
    outstanding = int(dict(timing.constants).get("outstanding", Parameters.outstanding))
    bus, burst, latency = (int(timing.constant(n)) for n in ("bus_bytes", "burst_bytes", "dram_latency_cycles"))
    return DramSide(bus, burst, latency, outstanding)


def as_generated(architecture: Architecture, side: DramSide) -> Architecture:
    """DRAM, a scratchpad and local memories with the ports of the machine that is generated for them; energies and areas stay."""
    levels = []
    for level in architecture.levels:
        rates: tuple[float | None, float | None]
        if level.kind is LevelKind.DRAM:
            rates = (side.bytes_per_cycle * 8 / level.word_bits,) * 2
        elif level is architecture.levels[-1]:
            rates = (None, None)  # an element's memory never makes it wait
        else:
            words = level.banks * WORD_BYTES * 8 / level.word_bits
            rates = ((READ_PORTS if side.under_way > 1 else 1) * words, WRITE_PORTS * words)
        read, write = rates
        levels.append(
            replace(
                level,
                ports=Ports.SEPARATE,
                read_bandwidth_words_per_cycle=read,
                write_bandwidth_words_per_cycle=write,
            )
        )
    return replace(architecture, levels=tuple(levels))


@dataclass(frozen=True)
class ArrayLeast:
    """What a mapping's steps and tiles need of a machine at least, whatever the layouts (K7).

    Args:
        cycles: In which the busiest port of the array is at work.
        first_bytes: Of the operands' first tiles in DRAM: nothing is computed before they have come, whole (R4).
        last_bytes: Of the last tile of results: it leaves when everything is computed.
    """

    cycles: float
    first_bytes: int
    last_bytes: int


def least_cycles(
    counts: PortCounts, output: str, p: Parameters, side: DramSide, array: ArrayLeast | None = None
) -> int:
    """Cycles that no run on a machine is below (K7).

    Every port moves what is counted; the array makes a step in every cycle in which it multiplies.

    Args:
        counts: Of the mapping or program.
        output: Name of the result.
        p: The machine.
        side: How it talks to DRAM.
        array: What the steps and tiles need of it; None leaves the array to the counts alone.
    """
    lines = max(_read_bytes(counts.reads, output, p), counts.filled, counts.updated)
    inside = max(counts.steps, lines / p.line_bytes) + side.ramp_cycles
    if array is not None:
        alone = (array.first_bytes + array.last_bytes) / side.bus_bytes
        inside = max(inside, max(inside - side.ramp_cycles, array.cycles) + side.ramp_cycles + alone)
    return math.ceil(max(inside, side.cycles(counts.loaded), side.cycles(counts.stored)) - 1e-9)


def array_least(plan: NestPlan) -> ArrayLeast:
    """Of a mapping shared out on a machine of loop nests.

    A step's words come in lines of their own, since an element has one register an operand. Without links a word that several elements
    want is read, or added to, once for each of them, and a memory gives or takes a word once a cycle. A local memory gives one sum a cycle:
    to a step, or to the scratchpad. Commands of the array follow each other (K3), see `_one_after_another`.
    """
    p, steps = plan.p, math.prod(loop.factor for loop in plan.loops)
    streams = [steps * _step_lines(plan, q) for q in "AB" if q not in p.local]
    fills = sum(_fill_lines(plan, q) for q in "AB" if q in p.local)
    feed = max([*streams, fills]) if p.feeds_both else sum(streams) + fills
    results = accesses(plan, "O") * _step_lines(plan, "O")
    sums = steps + accesses(plan, "O") if "O" in p.local else steps
    size = {q: math.prod(plan.tile(q)) * plan.tensors[q].bits // 8 for q in "ABO"}
    alone = _one_after_another(plan)
    return ArrayLeast(max(feed, results, sums, alone), size["A"] + size["B"], size["O"])


def _one_after_another(plan: NestPlan) -> int:
    """Cycles of the array's commands, of which one begins in the last cycle of another at the earliest (K3, K6).

    Fills are among them, unless local memories fill beside the array and the operand's tile has a second place. A drain of w words
    of l lines each takes (w - 1) l + 1 cycles, as its last lines leave beside the next run.
    """
    p, before = plan.p, plan.n_seq
    runs = math.prod(loop.factor for loop in plan.loops[:before])
    steps = math.prod(loop.factor for loop in plan.loops[before:])
    streams = [_step_lines(plan, q) for q in "AB" if q not in p.local]
    feed, lines = max([1, max(streams, default=0) if p.feeds_both else sum(streams)]), _step_lines(plan, "O")
    fills = {q: _fill_lines(plan, q) for q in "AB" if q in p.local}
    total = sum(fills.values())
    if p.fills_beside:
        size = {q: math.prod(plan.local_tile(q)) * plan.chip_bytes(q) for q in "ABO"}
        left = p.local_bytes - sum(size.values())
        apart = [q for q in fills if size[q] > left]
        total = sum(fills[q] for q in apart)
        if not apart and size["A"] + size["B"] > left:  # one of the two has a second place at most
            total = min(fills.values())
    if "O" not in p.local:
        return total + runs * (feed + (steps - 1) * max(feed, lines))
    words = math.prod(plan.local_tile("O"))
    drains = accesses(plan, "O") // words
    begun = math.prod(x.factor for i, x in enumerate(plan.loops[: plan.n_seq]) if any(plan.move("O", i)))
    again = max(0, drains - begun)  # tiles of sums that were there before
    return total + runs * steps * feed + drains * ((words - 1) * lines + 1) + again * words * lines


def core_least(made: CoreImage) -> ArrayLeast:
    """Of a core's program: what `array_least` says of a loop nest, command by command."""
    p, image = made.image.parameters, made.image
    runs = made.items(Command.RUN)
    alone = p.links is Links.NONE
    feeds, fills, fill_lines = [], 0.0, dict[int, int]()
    for kind, port in ((Command.FILL_A, "A"), (Command.FILL_B, "B")):
        times = Counter(w.start + byte for w in image.windows[port] for byte in w.bytes_of.values())
        words, again = (times.total(), max(times.values(), default=0)) if alone else (len(times), 1)
        if port in p.local:
            fills += made.items(kind) * words / p.line_bytes
            fill_lines[kind] = math.ceil(words / p.line_bytes)
        else:
            feeds.append(runs * max(again, math.ceil(words / p.line_bytes)))
    feed = max(feeds, default=0) if p.feeds_both else sum(feeds) + fills
    e = image.emissions
    elements, sums = len(e.group) * len(e.window), max(1, len(e.head))
    words, again = (elements, math.ceil(elements / sums)) if alone else (sums, 1)
    leaves = made.items(Command.DRAIN if "O" in p.local else Command.RUN)
    results = leaves * max(again, math.ceil(words * PARTIAL_BYTES / p.line_bytes))
    step = max([1, max(feeds, default=0) if p.feeds_both else sum(feeds)]) // max(1, runs)
    lines = results // max(1, leaves)
    in_turn = sum(_launch_least(s, fill_lines, max(1, step), max(1, lines), "O" in p.local) for s in made.shapes)
    loads = [t for t in made.transfers if not t[4]]
    stores = [t for t in made.transfers if t[4]]
    first, last = (box_bytes(t[0]) if t else 0 for t in (loads[0] if loads else (), stores[-1] if stores else ()))
    return ArrayLeast(
        max(feed, results, in_turn, runs + (made.items(Command.DRAIN) if "O" in p.local else 0)), first, last
    )


def _launch_least(shape: CommandShape, fills: Mapping[int, int], feed: int, lines: int, keeps_sums: bool) -> int:
    """Cycles from one launch of a core's array to the next (K5): its items, and one more.

    Args:
        shape: The launch.
        fills: By kind of fill, lines of an item.
        feed: Of an iteration, lines that it takes.
        lines: Of a result that leaves.
        keeps_sums: Whether sums stay in the local memories until they are drained.
    """
    if shape.kind in (Command.FILL_A, Command.FILL_B):
        return shape.items * fills[shape.kind] + 1
    if shape.kind == Command.RUN:
        return feed + (shape.items - 1) * max(feed, 1 if keeps_sums else lines) + 1
    return (shape.items - 1) * lines + 2


def _step_lines(plan: NestPlan, port: str) -> int:
    """Lines in which those words come or go at least."""
    words, again = step_words(plan, port)
    out = math.ceil(words / plan.p.cols) if port == "O" else 1
    return max(again, out, math.ceil(words * plan.chip_bytes(port) / plan.p.line_bytes))


def _fill_lines(plan: NestPlan, port: str) -> int:
    """Lines in which an operand enters the local memories at least: tile by tile, up to a word of the memory at a time.

    One address goes to all local memories, so a word that several elements want is read for each of them at each of these.
    """
    words, again = step_words(plan, port)
    tile = math.prod(plan.local_tile(port))
    size = tile * plan.chip_bytes(port)
    times = accesses(plan, port) // tile
    return times * max(again * math.ceil(size / LOCAL_WORD_BYTES), math.ceil(words * size / plan.p.line_bytes))


def _read_bytes(moved: Mapping[str, float], output: str, p: Parameters) -> float:
    """Bytes that the busiest read port of the array gives at least, by tensor."""
    total, sums = sum(moved.values()), moved.get(output, 0)
    if not p.overlaps:
        return total  # one port
    if "O" in p.local:
        return max(*moved.values(), total / READ_PORTS)  # ports that two tensors may share
    return max(total - sums, sums)
