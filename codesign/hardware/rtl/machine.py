"""The whole machine: scratchpad, array, DMA engines, control, and the ports of its top module."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal

from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.rtl.dma import DmaRead, DmaWrite
from codesign.hardware.rtl.memory import Scratchpad
from codesign.hardware.rtl.queue import QueueControl
from codesign.hardware.rtl.registers import WriteBus
from codesign.hardware.rtl.sequencer import Halves, Loader, Sequencer
from codesign.hardware.rtl.unit import ArrayUnit
from codesign.hardware.words import Fault

FIRST_REGISTER = 16


class Machine(Elaboratable):
    """One accelerator.

    Args:
        p: Its parameters.
        instance: Emit memories and processing elements as instances of modules of their own (for Verilog) instead of inline
            (for Amaranth's simulator).

    Attributes:
        ports: Name -> signal of every port, clock and reset aside; `inputs` names those that are driven from outside.
        map: Register name -> (address, bits).
    """

    def __init__(self, p: Parameters, instance: bool = False) -> None:
        self.p = p
        self.host = WriteBus("cfg")
        self.start, self.busy = Signal(name="start"), Signal(name="busy")
        self.scratchpad = Scratchpad(p, instance)
        self.array_bus, self.dma_bus = WriteBus("array_side"), WriteBus("dma_side")
        self.unit = ArrayUnit(p, self.array_bus, self.scratchpad, FIRST_REGISTER, instance)
        self.reader = DmaRead(p, self.dma_bus, self.scratchpad, self.unit.registers.end)
        self.writer = DmaWrite(p, self.dma_bus, self.scratchpad, self.reader.registers.end)
        at, files = self.writer.registers.end, [self.unit.registers, self.reader.registers, self.writer.registers]
        if p.control is Control.NEST:
            self.halves = Halves(p)
            self.loader = Loader(p, self.dma_bus, self.reader, self.halves, at)
            end = self.loader.registers.end
            self.sequencer = Sequencer(p, self.array_bus, self.unit, self.loader, self.writer, end)
            files += [self.loader.registers, self.sequencer.registers]
        else:
            self.control = QueueControl(p, self.array_bus, self.dma_bus, self.unit, self.reader, self.writer, at)
            files += [self.control.registers, self.control.dma_registers]
        self.map = {name: place for file in files for name, place in file.map.items()}
        self._ports()

    def _ports(self) -> None:
        r, w = self.reader, self.writer
        self.inputs = {
            "cfg_we": self.host.we, "cfg_addr": self.host.address, "cfg_data": self.host.data, "start": self.start,
            "ar_ready": r.granted, "r_valid": r.data_valid, "r_data": r.data,
            "r_tag": r.answer_tag, "aw_ready": w.granted, "w_ready": w.data_ready,
        }  # fmt: skip
        if self.p.axi:
            self.inputs |= {"r_resp": r.response, "b_valid": w.answered, "b_resp": w.response}
        else:
            self.inputs |= {"r_error": r.error, "w_error": w.error}
        self.outputs = {
            "busy": self.busy, "ar_valid": r.request, "ar_addr": r.address, "ar_beats": r.beats,
            "ar_tag": r.tag, "r_ready": r.data_ready,
            "aw_valid": w.request, "aw_addr": w.address, "aw_beats": w.beats, "w_valid": w.data_valid, "w_data": w.data,
            "read_fault": r.fault, "write_fault": w.fault, "reads_done": r.bursts.number, "writes_done": w.bursts.number,
        }  # fmt: skip
        if self.p.axi and self.p.by_tag:
            self.inputs["b_tag"], self.outputs["aw_tag"] = w.answer_tag, w.tag
        self.outputs |= {"w_strb": w.strobe, "w_last": w.last} | ({"b_ready": w.answer_ready} if self.p.axi else {})
        self.outputs |= self.unit.events | {"ev_loaded": r.moved}
        if self.p.control is Control.QUEUE:
            for name, q in (("aq", self.control.array), ("dq", self.control.dma)):
                self.inputs |= {f"{name}_valid": q.word_valid, f"{name}_word": q.word}
                self.outputs[f"{name}_ready"] = q.word_ready
        for name, signal in (*self.inputs.items(), *self.outputs.items()):
            signal.name = name

    @property
    def ports(self) -> list[Signal]:
        """All ports but clock and reset."""
        return [*self.inputs.values(), *self.outputs.values()]

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m, host = Module(), self.host
        m.submodules.scratchpad, m.submodules.unit = self.scratchpad, self.unit
        m.submodules.reader, m.submodules.writer = self.reader, self.writer
        buses = (self.array_bus, self.dma_bus)
        works = Signal(name="works")
        m.d.comb += self.busy.eq(works & (self.reader.fault == Fault.NONE) & (self.writer.fault == Fault.NONE))
        if self.p.control is Control.NEST:
            m.submodules.halves, m.submodules.loader, m.submodules.sequencer = self.halves, self.loader, self.sequencer
            for bus in buses:
                m.d.comb += [bus.we.eq(host.we), bus.address.eq(host.address), bus.data.eq(host.data)]
            m.d.comb += [self.loader.start.eq(self.start), self.sequencer.start.eq(self.start)]
            m.d.comb += works.eq(self.loader.busy | self.sequencer.busy)
            return m
        m.submodules.control = control = self.control
        for bus, queue in zip(buses, (control.array.bus, control.dma.bus), strict=True):
            m.d.comb += bus.we.eq(host.we | queue.we)
            m.d.comb += [
                bus.address.eq(Mux(host.we, host.address, queue.address)),
                bus.data.eq(Mux(host.we, host.data, queue.data)),
            ]
        m.d.comb += [control.start.eq(self.start), works.eq(control.busy)]
        return m


def register_map(p: Parameters) -> dict[str, tuple[int, int]]:
    """Register name -> (address, bits) of a machine, without generating it."""
    machine = Machine(p)
    _drop(machine)
    return machine.map


def _drop(value: object) -> None:
    """Tell Amaranth that a component is not going to be part of a design."""
    if isinstance(value, Elaboratable):
        if getattr(value, "_MustUse__silence", False) is True:
            return
        value._MustUse__silence = True
        for part in vars(value).values():
            _drop(part)
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            _drop(part)
