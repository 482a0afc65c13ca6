"""Every parameter of the spaces that hardware is generated from changes the netlist."""

import warnings
from functools import cache

import pytest
from amaranth.back import rtlil

from codesign.hardware.core_plan import core_parameters
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.parameters import Parameters
from codesign.hardware.rtl.array import ProcessingElement
from codesign.hardware.rtl.machine import Machine
from codesign.workloads.computation import Computation
from spaces.cores import CORE_SPACES, core_of
from spaces.parameters import Value
from spaces.scratchpad import SCRATCHPAD

CONV = Computation.parse("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=4, c=2, p=3, q=2, r=2, s=2, bits=8, partial_bits=32)
SPACES = {"scratchpad": SCRATCHPAD, **CORE_SPACES}


@cache
def netlist(p: Parameters) -> str:
    """All modules and memories of a machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine, element = Machine(p, instance=True), ProcessingElement(p, instance=True)
        text = rtlil.convert(machine, name=p.name, ports=machine.ports, emit_src=False)
        text += rtlil.convert(element, name=f"{p.name}_pe", ports=element.ports, emit_src=False)
    memories = [*machine.scratchpad.bank, *(table for table in machine.unit.tables.values())]
    if element.memory is not None:
        memories.append(element.memory)
    return "".join([text, *(m.verilog() for m in memories)])


def machine_of(name: str, design: dict[str, Value]) -> Parameters:
    if name != "scratchpad":
        return core_parameters(core_of(CORE_SPACES[name], design), "machine")
    bus = int(design["bus_bits"]) // 8
    return parameters_of(SCRATCHPAD.build(design), CONV, bus, bus * int(design["burst_beats"]), "machine")


def smallest(name: str) -> dict[str, Value]:
    return {p.name: p.choices[0] for p in SPACES[name].space.parameters}


QUICK = (("dotcore", "links"), ("dotcore", "banks"))
CASES = [(name, p.name) for name, space in SPACES.items() for p in space.space.parameters]


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_every_value_of_a_parameter_is_another_machine(name: str, parameter: str) -> None:
    choices = next(p for p in SPACES[name].space.parameters if p.name == parameter).choices
    machines = {machine_of(name, smallest(name) | {parameter: value}) for value in choices}
    assert len(machines) == len(choices)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow("oracle")) for case in CASES],
)
def test_a_parameter_changes_the_netlist(name: str, parameter: str) -> None:
    choices = next(p for p in SPACES[name].space.parameters if p.name == parameter).choices
    first, second = (machine_of(name, smallest(name) | {parameter: value}) for value in choices[:2])
    assert netlist(first) != netlist(second)
