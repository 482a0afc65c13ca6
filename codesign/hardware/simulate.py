"""Runs a machine cycle by cycle in Amaranth's simulator: slow, but needs nothing but Python."""

import time
import warnings
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from codesign.core.errors import MissingDependencyError
from codesign.hardware.bench import Counts, Dram, HardwareError, Run, count
from codesign.hardware.device_memory import DeviceMemory
from codesign.hardware.image import Image
from codesign.hardware.memory_timing import PLAIN_MEMORY, MemoryTiming
from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.verilog import without_collector
from codesign.timing.dram.device import DramDevice

if TYPE_CHECKING:
    from codesign.hardware.rtl.machine import Machine

KEPT = 4
"""Machines kept ready: generating one takes longer than running a small layer on it."""


class _Prepared:
    """A generated machine in a simulator, in which one test bench after the other may run."""

    def __init__(self, parameters: Parameters) -> None:
        from amaranth.sim import Simulator

        from codesign.hardware.rtl.machine import Machine

        self.machine = Machine(parameters)
        self._parameters = parameters
        self._bench: Callable[[Any], Coroutine[Any, Any, None]]
        self._fault: HardwareError | None = None
        self._used = False
        self._simulator = Simulator(self.machine)
        self._simulator.add_clock(1e-6)
        self._simulator.add_testbench(self._run)

    async def _run(self, context: Any) -> None:
        try:
            await self._bench(context)
        except HardwareError as error:  # the simulator ends as after any run, and may be used again
            self._fault = error

    def run(self, bench: "Callable[[Any], Coroutine[Any, Any, None]]") -> None:
        """Run a test bench from the state after power is turned on."""
        self._bench, self._fault = bench, None
        if self._used:
            self._simulator.reset()
        self._used = True
        self._simulator.run()
        while len(_ready) >= KEPT:
            del _ready[next(iter(_ready))]
        _ready[self._parameters] = self
        if self._fault is not None:
            raise self._fault


def _drive(context: Any, inputs: Mapping[str, Any], values: Mapping[str, int]) -> None:
    """Set inputs all at once, so that the machine settles once."""
    from amaranth.hdl import Cat

    word = width = 0
    for name, value in values.items():
        word |= value << width
        width += len(inputs[name])
    if width:
        context.set(Cat(*(inputs[name] for name in values)), word)


_ready: dict[Parameters, _Prepared] = {}


class _Bench:
    """What is around a machine in one run, see `simulate_in_python`."""

    def __init__(self, image: Image, machine: "Machine", dram: Dram, counts: Counts, limit: int) -> None:
        self._image, self._machine, self._dram, self._counts, self._limit = image, machine, dram, counts, limit
        queued = image.parameters.control is Control.QUEUE
        self._streams = {"aq": image.array_words, "dq": image.dma_words} if queued else {}
        self.cycles = 0

    async def run(self, ctx: Any) -> None:
        """Write the registers, start the machine, and serve it until it is no longer busy."""
        inputs, outputs = self._machine.inputs, self._machine.outputs
        ctx.set(inputs["cfg_we"], 1)
        for address, data in self._image.registers:
            _drive(ctx, inputs, {"cfg_addr": address, "cfg_data": data})
            await ctx.tick()
        _drive(ctx, inputs, {"cfg_we": 0, "start": 1})
        await ctx.tick()
        ctx.set(inputs["start"], 0)
        last: dict[str, int] = {}
        at = dict.fromkeys(self._streams, 0)
        for name, words in self._streams.items():
            _drive(ctx, inputs, {f"{name}_valid": 1, f"{name}_word": words[0]})
        while ctx.get(outputs["busy"]) or self._dram.drains(self._status(ctx)):
            given = self._dram.inputs()
            _drive(ctx, inputs, {name: value for name, value in given.items() if last.get(name) != value})
            last = given
            seen = {name: ctx.get(signal) for name, signal in outputs.items()}
            self._dram.cycle(seen, given)
            count(self._counts, seen)
            await ctx.tick()
            for name, words in self._streams.items():
                if seen[f"{name}_ready"]:
                    at[name] += 1
                    more = at[name] < len(words)
                    _drive(ctx, inputs, {f"{name}_valid": int(more), f"{name}_word": words[at[name]] if more else 0})
            self.cycles += 1
            if self.cycles > self._limit:
                raise HardwareError(f"the machine is still busy after {self._limit} cycles")
        self._dram.check(self._status(ctx))

    def _status(self, ctx: Any) -> dict[str, int]:
        """Registers that say how transfers ended."""
        names = ("read_fault", "write_fault", "reads_done", "writes_done")
        return {name: ctx.get(self._machine.outputs[name]) for name in names}


def simulate_in_python(
    image: Image,
    memory: bytes,
    *,
    timing: MemoryTiming = PLAIN_MEMORY,
    device: DramDevice | None = None,
    limit: int = 2_000_000,
) -> Run:
    """Run an image.

    Args:
        image: What the machine is given.
        memory: DRAM at the start.
        timing: Of the memory.
        device: DRAM whose timing stands in the place of the memory's latency.
        limit: Cycles after which the machine counts as stuck.

    Raises:
        HardwareError: It did not end within `limit` cycles, reached outside its tensors, or stopped since the memory failed.
        MissingDependencyError: Amaranth is not installed.
    """
    try:
        import amaranth.sim  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "simulating hardware needs the package 'amaranth'", hint="pip install 'accel-codesign[hardware]'"
        ) from None
    with warnings.catch_warnings(), without_collector():
        warnings.simplefilter("ignore")
        held = _ready.pop(image.parameters, None) or _Prepared(image.parameters)
    counts = Counts()
    dram = Dram(image, memory, timing, counts, None if device is None else DeviceMemory(device))
    bench = _Bench(image, held.machine, dram, counts, limit)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        held.run(bench.run)
    seconds = time.perf_counter() - started
    return Run(bench.cycles, bytes(dram.memory), counts, seconds, "amaranth", dram.written_cycle)
