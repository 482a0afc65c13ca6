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


def simulate_in_python(
    image: Image,
    memory: bytes,
    *,
    timing: MemoryTiming = PLAIN_MEMORY,
    device: DramDevice | None = None,
    limit: int = 2_000_000,
    watch: "Callable[[Any, Machine], None] | None" = None,
) -> Run:
    """Run an image.

    Args:
        image: What the machine is given.
        memory: DRAM at the start.
        timing: Of the memory.
        device: DRAM whose timing stands in the place of the memory's latency.
        limit: Cycles after which the machine counts as stuck.
        watch: Called in every cycle, those in which registers are written too, with the simulator's context and the machine.

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
    machine = held.machine
    counts = Counts()
    dram = Dram(image, memory, timing, counts, None if device is None else DeviceMemory(device))
    queued = image.parameters.control is Control.QUEUE
    streams = {"aq": image.array_words, "dq": image.dma_words} if queued else {}
    result: dict[str, int] = {}

    async def bench(ctx):  # type: ignore[no-untyped-def]
        inputs, outputs = machine.inputs, machine.outputs
        ctx.set(inputs["cfg_we"], 1)
        for address, data in image.registers:
            _drive(ctx, inputs, {"cfg_addr": address, "cfg_data": data})
            if watch is not None:
                watch(ctx, machine)
            await ctx.tick()
        _drive(ctx, inputs, {"cfg_we": 0, "start": 1})
        if watch is not None:
            watch(ctx, machine)
        await ctx.tick()
        ctx.set(inputs["start"], 0)
        cycles = 0
        last: dict[str, int] = {}
        at = dict.fromkeys(streams, 0)
        for name, words in streams.items():
            _drive(ctx, inputs, {f"{name}_valid": 1, f"{name}_word": words[0]})
        while ctx.get(outputs["busy"]):
            given = dram.inputs()
            _drive(ctx, inputs, {name: value for name, value in given.items() if last.get(name) != value})
            last = given
            seen = {name: ctx.get(signal) for name, signal in outputs.items()}
            dram.cycle(seen, given)
            count(counts, seen)
            if watch is not None:
                watch(ctx, machine)
            await ctx.tick()
            for name, words in streams.items():
                if seen[f"{name}_ready"]:
                    at[name] += 1
                    more = at[name] < len(words)
                    word = words[at[name]] if more else 0
                    _drive(ctx, inputs, {f"{name}_valid": int(more), f"{name}_word": word})
            cycles += 1
            if cycles > limit:
                raise HardwareError(f"the machine is still busy after {limit} cycles")
        dram.check(
            {name: ctx.get(outputs[name]) for name in ("read_fault", "write_fault", "reads_done", "writes_done")}
        )
        result["cycles"] = cycles

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        held.run(bench)
    seconds = time.perf_counter() - started
    return Run(result["cycles"], bytes(dram.memory), counts, seconds, "amaranth", dram.written_cycle)
