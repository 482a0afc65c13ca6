"""An architecture written for other computations is refused, with the nearest name."""

from pathlib import Path

import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, LevelKind, StorageLevel
from codesign.core.errors import UserError
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.formats.load import load_inputs
from codesign.mappers.registry import create
from codesign.mapping.fit import check_fit
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.computation import Computation
from codesign.workloads.files import computation_from_json

GEMM = Computation.parse("O[m,n] += I[m,k] * W[k,n]", m=4, n=4, k=4, bits=8)
CONV = Computation.parse("Outputs[k,p] += Inputs[p+r] * Weights[k,r]", k=4, p=4, r=3, bits=8)


def machine(keep: tuple[str, ...] = ("weight",), bits: int = 8) -> Architecture:
    energy = AccessEnergy(1.0, 1.0, 1.0)
    dram = StorageLevel("DRAM", LevelKind.DRAM, energy=energy)
    buffer = StorageLevel("Buffer", capacity_bytes=64, keep=frozenset(keep), energy=energy, area_mm2=0.1)
    return Architecture("edge", (dram, buffer), Arithmetic(bits=bits, energy_pj=1.0, area_mm2=0.1))


@pytest.mark.parametrize("keep", [("weight",), ("I", "output"), ()])
def test_roles_and_tensors_may_be_kept(keep: tuple[str, ...]) -> None:
    check_fit(machine(keep), [GEMM])


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        ("wieght", r"`keep` names 'wieght', which is neither a role .*level 'Buffer'\); did you mean 'weight'\?"),
        ("Weight", r"names 'Weight'.*nor a tensor of the problem \(I, O, W\).*did you mean 'weight'"),
        ("Q", r"names 'Q'.*leave it out"),
    ],
)
def test_a_misspelt_tensor_is_refused(keep: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_fit(machine((keep,)), [GEMM])


def test_a_name_may_belong_to_another_layer_of_the_network() -> None:
    check_fit(machine(("W", "Weights")), [GEMM, CONV])
    with pytest.raises(UserError, match="'Weights'"):
        check_fit(machine(("W", "Weights")), [GEMM])


def test_macs_narrower_than_an_operand_are_refused() -> None:
    check_fit(machine(bits=8), [GEMM])
    message = (
        r"the MACs take operands of 4 bits, 'I' of .* has 8 \(architecture 'edge': `mac`\); give `mac: \{bits: 8\}`"
    )
    with pytest.raises(UserError, match=message):
        check_fit(machine(bits=4), [GEMM])
    problem = {"notation": "O[m] += I[m,k] * W[k]", "bounds": {"m": 2, "k": 2}, "bits": 8}
    wide = computation_from_json({**problem, "tensors": {"W": {"bits": 16, "partial_bits": 16}}}, "p.yaml")
    with pytest.raises(UserError, match=r"'W' of .* has 16"):
        check_fit(machine(bits=8), [wide])


def test_a_network_is_held_against_the_machine_too() -> None:
    net = NetworkBuilder("one", bits=16)
    network = net.build(net.linear(net.input("x", (1, 8)), 8))
    with pytest.raises(UserError, match="the MACs take operands of 8 bits"):
        evaluate_workload(network, machine(), create("random"), EvaluationOptions())


def test_files_are_held_against_each_other(tmp_path: Path) -> None:
    (tmp_path / "arch.yaml").write_text(
        "architecture:\n  levels:\n  - {name: DRAM, kind: dram, energy: {read_pj: 1, fill_pj: 1}}\n"
        "  - {name: Buffer, keep: [wieght], energy: {read_pj: 1, fill_pj: 1}}\n  mac: {bits: 8, energy_pj: 1}\n"
    )
    (tmp_path / "problem.yaml").write_text(
        'problem: {notation: "O[m,n] += I[m,k] * W[k,n]", bounds: {m: 2, n: 2, k: 2}, bits: 8}\n'
    )
    with pytest.raises(UserError, match="did you mean 'weight'"):
        load_inputs([tmp_path / "arch.yaml", tmp_path / "problem.yaml"])
