"""Runs a machine cycle by cycle in Amaranth's simulator: slow, but needs nothing but Python."""

import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from codesign.core.errors import MissingDependencyError
from codesign.hardware.bench import Counts, Dram, HardwareError, Run, count
from codesign.hardware.device_memory import DeviceMemory
from codesign.hardware.image import Image
from codesign.hardware.memory_timing import PLAIN_MEMORY, MemoryTiming
from codesign.hardware.parameters import Control
from codesign.timing.dram.device import DramDevice

if TYPE_CHECKING:
    from codesign.hardware.rtl.machine import Machine


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
        from amaranth.sim import Simulator
    except ImportError:
        raise MissingDependencyError(
            "simulating hardware needs the package 'amaranth'", hint="pip install 'accel-codesign[hardware]'"
        ) from None
    from codesign.hardware.rtl.machine import Machine

    machine = Machine(image.parameters)
    counts = Counts()
    dram = Dram(image, memory, timing, counts, None if device is None else DeviceMemory(device))
    queued = image.parameters.control is Control.QUEUE
    streams = {"aq": image.array_words, "dq": image.dma_words} if queued else {}
    result: dict[str, int] = {}

    async def bench(ctx):  # type: ignore[no-untyped-def]
        inputs, outputs = machine.inputs, machine.outputs
        ctx.set(inputs["cfg_we"], 1)
        for address, data in image.registers:
            ctx.set(inputs["cfg_addr"], address)
            ctx.set(inputs["cfg_data"], data)
            if watch is not None:
                watch(ctx, machine)
            await ctx.tick()
        ctx.set(inputs["cfg_we"], 0)
        ctx.set(inputs["start"], 1)
        if watch is not None:
            watch(ctx, machine)
        await ctx.tick()
        ctx.set(inputs["start"], 0)
        cycles = 0
        last: dict[str, int] = {}
        at = dict.fromkeys(streams, 0)
        for name, words in streams.items():
            ctx.set(inputs[f"{name}_valid"], 1)
            ctx.set(inputs[f"{name}_word"], words[0])
        status = ("read_fault", "write_fault", "reads_done", "writes_done")
        while ctx.get(outputs["busy"]) or dram.drains({name: ctx.get(outputs[name]) for name in status}):
            given = dram.inputs()
            for name, value in given.items():
                if last.get(name) != value:
                    ctx.set(inputs[name], value)
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
                    ctx.set(inputs[f"{name}_valid"], int(at[name] < len(words)))
                    ctx.set(inputs[f"{name}_word"], words[at[name]] if at[name] < len(words) else 0)
            cycles += 1
            if cycles > limit:
                raise HardwareError(f"the machine is still busy after {limit} cycles")
        dram.check({name: ctx.get(outputs[name]) for name in status})
        result["cycles"] = cycles

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simulator = Simulator(machine)
        simulator.add_clock(1e-6)
        simulator.add_testbench(bench)
        started = time.perf_counter()
        simulator.run()
    seconds = time.perf_counter() - started
    return Run(result["cycles"], bytes(dram.memory), counts, seconds, "amaranth", dram.written_cycle)
