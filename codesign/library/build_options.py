"""What `build` is asked for."""

from dataclasses import dataclass
from typing import final

from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name

SIMULATORS = ("verilator", "amaranth")
ANSWERS = ("in_order", "by_tag")


@final
@dataclass(frozen=True)
class BuildOptions:
    """What is built, and what is done with it.

    Args:
        trial: Number of the trial in the study.
        layer: Name of a recorded layer, or a layer such as ``gemm M=32 N=32 K=32``.
        space: Space of the design, where no study and no files say it: scratchpad, gemmcore, gemvcore, dotcore, convcore; or
            ``module:attribute`` of a study's own.
        design: Changes to the space's preset, such as ``pe=8,banks=2``.
        bus_bytes: Bytes of a beat, for files; default 16.
        burst_bytes: Bytes of a burst, for files; default 256.
        outstanding: Bursts that a DMA engine has under way at most; default that of the study's timing table, else 16. With 1 the machine
            does one thing after another.
        evaluations: Mappings or programs searched for a design of `space`.
        remap: Whether a mapping with sums of 32 bits is searched instead of the recorded one.
        seed: Seed of the operands and the search.
        simulate: Whether it is run and compared with ``einsum`` and the cost model.
        synthesize: Whether it is mapped to an open cell library.
        power: Whether its power in the run is measured on the mapped netlist, which is simulated and synthesised for it.
        simulator: ``verilator`` or ``amaranth``; default verilator where it is.
        host_driver: Whether a host's program in C is written, and run around the simulated machine.
        network: ONNX network of integers that the host runs, launch by launch, instead of a layer.
        memory: DRAM device of the timing tier, e.g. ddr4_2400_x16, whose banks and refresh answer the simulated machine.
        axi: Whether the port to DRAM is one of AXI4: aligned beats, bursts within 4 KB.
        answers: ``in_order``, or ``by_tag`` where the memory may answer requests under way in any order.
    """

    trial: int | None = None
    layer: str | None = None
    space: str | None = None
    design: str | None = None
    bus_bytes: int | None = None
    burst_bytes: int | None = None
    outstanding: int | None = None
    evaluations: int = 200
    remap: bool = False
    seed: int = 0
    simulate: bool = False
    synthesize: bool = False
    power: bool = False
    simulator: str | None = None
    host_driver: bool = False
    network: str | None = None
    axi: bool = False
    answers: str = "in_order"
    memory: str | None = None

    def __post_init__(self) -> None:
        check_least(1, bus_bytes=self.bus_bytes, burst_bytes=self.burst_bytes)
        check_least(1, outstanding=self.outstanding, evaluations=self.evaluations)
        check_least(0, seed=self.seed)
        if self.simulator not in (None, *SIMULATORS):
            raise unknown_name("simulator", self.simulator, SIMULATORS, where="--simulator")
        if self.answers not in ANSWERS:
            raise unknown_name("order of answers", self.answers, ANSWERS, where="--answers")
        if self.simulator is not None and not self.simulate:
            raise UserError("--simulator is an option of --simulate", hint="give --simulate, or leave it out")
        if self.memory is not None and (not self.simulate or self.network is not None or self.host_driver):
            raise UserError(
                "--memory is for --simulate of one layer", hint="give --simulate, no --network, no --host-driver"
            )
        if self.power and (self.memory or self.network or self.host_driver or self.simulator == "amaranth"):
            raise UserError(
                "--power is of one layer that verilator runs",
                hint="leave --memory, --network, --host-driver and --simulator out",
            )
        if self.memory is not None:
            from codesign.timing.dram.device import load_device

            load_device(self.memory)
        if self.memory is not None and self.simulator == "verilator":
            raise UserError("--memory is simulated by amaranth alone", hint="leave --simulator out")
        if self.network is not None and self.layer is not None:
            raise UserError("--network and --layer contradict each other", hint="a network has layers of its own")
        if (self.network is not None or self.host_driver) and self.simulator == "amaranth":
            raise UserError("a host's program runs around Verilator's simulation alone", hint="leave --simulator out")


DEFAULT_OPTIONS = BuildOptions()


@final
@dataclass(frozen=True)
class Request:
    """What is built: a trial of a study, files, or a design of a space with a layer.

    Args:
        what: A study, or architecture, problem and mapping files.
        options: Which part of it, and how.
    """

    what: tuple[str, ...]
    options: BuildOptions
