"""Precisions: what they say, which tensor gets which width, what scales cost (rules P1-P5)."""

from dataclasses import replace
from pathlib import Path

import pytest

from codesign.arch.architecture import Arithmetic
from codesign.arch.files import architecture_from_json, architecture_to_json
from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.computation import Computation
from codesign.workloads.load import load_network
from codesign.workloads.network import OperatorKind
from codesign.workloads.precision import FORMATS, Precision, element_format, narrowed, with_precision
from tests.command_line import run

GEMM = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=64, n=64, k=64)


def test_what_is_said() -> None:
    parsed = Precision.parse("W4g128A16KV8,lm_head*=W8A16")
    assert (parsed.weights.bits, parsed.weights.extra_bits) == (4, 0.125)
    assert parsed.cache is not None
    assert (parsed.activations.bits, parsed.cache.bits) == (16, 8)
    assert parsed.of("lm_head.logits").weights.bits == 8
    assert parsed.of("layer1.q") is parsed
    assert Precision.parse("mxfp4").weights == Precision.parse("mxfp4").activations == FORMATS["mxfp4"]
    assert element_format("mxfp4").extra_bits == 0.25
    assert element_format("nvfp4").extra_bits == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("W4", "written like W4A8"),
        ("4A8", "written like W4A8"),
        ("W4A8X2", "written like W4A8"),
        ("Wposit8A8", "unknown element format 'posit8'"),
        ("W0A8", "1 to 64 bits"),
        ("W4g0A8", "at least one element"),
        ("W4A8,lm_head", "PATTERN=PRECISION"),
    ],
)
def test_what_says_nothing(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Precision.parse(text)


def test_a_network_gets_widths_by_what_tensors_are() -> None:
    network = load_network("llama3-8b-block", phase="decode", past=16, bits=8)
    narrow = with_precision(network, Precision.parse("W4A16KV8,*ffn.down=W2A8"))
    for before, after in zip(network.operators, narrow.operators, strict=True):
        if after.computation is None:
            continue
        bits = {t.role.value: t.bits for t in after.computation.tensors}
        parameter = narrow.tensor_by_name[after.operands[1]].is_parameter
        if "ffn.down" in after.name:
            assert bits == {"input": 8, "weight": 2, "output": 8}
        elif parameter:
            assert (bits["weight"], bits["output"]) == (4, 16)
        else:
            assert bits["weight"] == 8, after.name  # the cache
        assert before.computation is not None
        assert after.computation.macs == before.computation.macs
    cached = [o for o in narrow.operators if o.kind is OperatorKind.APPEND]
    assert cached
    assert all(narrow.tensor_by_name[o.outputs[0]].bits == 8 for o in cached)
    with pytest.raises(UserError, match="no operator is called 'head'"):
        with_precision(network, Precision.parse("W4A8,head=W8A8"))


def test_scales_are_moved_and_stored() -> None:
    """Four bits and a quarter cost 17/16 of four bits wherever only this tensor's traffic counts (P2)."""
    architecture = load_preset("simba")
    plain = narrowed(GEMM, Precision.parse("W4A8"))
    scaled = narrowed(GEMM, Precision.parse("Wmxfp4A8"))
    found = ExactMapper().map(MappingProblem(plain, architecture), Objective.ENERGY, budget=Budget(), seed=0)
    assert found.mapping is not None
    costs = [evaluate(c, architecture, found.mapping) for c in (plain, scaled)]
    assert all(isinstance(c, Cost) for c in costs)
    energy = [
        {(v.level, t.tensor): t.energy_pj for v in c.levels for t in v.tensors} for c in costs if isinstance(c, Cost)
    ]
    for key, value in energy[0].items():
        assert energy[1][key] == pytest.approx(value * (17 / 16 if key[1] == "B" else 1.0)), key
    proven = ExactMapper().map(MappingProblem(scaled, architecture), Objective.ENERGY, budget=Budget(), seed=0)
    assert proven.proof is Proof.OPTIMAL


def test_macs_cost_by_width() -> None:
    mac = Arithmetic(16, energy_pj=2.0, by_width=((8, 4, 0.3),), unpack_pj=0.1)
    assert mac.energy_of([4, 8]) == 0.3
    assert mac.energy_of([16, 16]) == 2.0
    assert mac.energy_of([8, 8]) == pytest.approx(2.2)
    assert mac.least_energy_pj == 0.3
    with pytest.raises(UserError, match="`by_width` needs 16 >= wider"):
        Arithmetic(16, energy_pj=2.0, by_width=((32, 4, 0.3),))
    architecture = replace(load_preset("simba"), mac=replace(mac, name="MAC"))
    assert architecture_from_json(architecture_to_json(architecture)).mac == architecture.mac


def test_the_option(tmp_path: Path) -> None:
    layer = ("map", "--arch", "simba", "--layer", "gemm M=16 N=16 K=16", "--evaluations", "50")
    assert run(*layer, "--precision", "W4A8").code == 0
    for text, message in (
        ("W9A8", "operands of 8 bits"),
        ("W4A8KV4", "one layer has no cache"),
        ("W4A8,x=W4A8", "of --network"),
    ):
        outcome = run(*layer, "--precision", text)
        assert outcome.code == 2
        assert message in outcome.err
