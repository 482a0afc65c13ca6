"""Densities, formats and actions in files: ours, and Timeloop v0.4's."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from codesign.arch.files import architecture_from_json, architecture_to_json
from codesign.arch.sparsity import LevelSparsity, Rank, RankFormat, TensorFormat, ZeroAction, ZeroKind
from codesign.core.errors import UserError
from codesign.cost.cost import Cost, evaluate
from codesign.cost.sparse.expectation import expect
from codesign.formats.load import load_inputs
from codesign.formats.timeloop.architecture_writer import architecture_to_timeloop
from codesign.formats.timeloop.problem import computation_from_timeloop, computation_to_timeloop
from codesign.workloads.computation import Computation
from codesign.workloads.density import Actual, Banded, Proportional, Structured, Uniform
from codesign.workloads.density_files import density_from_json
from codesign.workloads.files import computation_from_json, computation_to_json

PROBLEM: dict[str, Any] = {
    "notation": "O[m,n] += I[m,k] * W[k,n]",
    "bounds": {"m": 8, "n": 4, "k": 12},
    "tensors": {"I": {"density": 0.6}, "W": {"density": {"model": "structured", "n": 2, "m": 4, "axis": 0}}},
}
LEVEL: dict[str, Any] = {"name": "Buffer", "word_bits": 8, "energy": {"read_pj": 1, "fill_pj": 1}}
SPARSITY: dict[str, Any] = {
    "metadata_bits": 4,
    "metadata_word_bits": 64,
    "formats": {
        "weight": "coordinates",
        "I": {"ranks": [{"format": "offsets", "payload_bits": 9}, {"format": "bitmask"}]},
    },
    "actions": [{"kind": "skipping", "follower": "weight", "leaders": ["input"]}],
}


def machine(**sparsity: Any) -> dict[str, Any]:
    dram = {"name": "DRAM", "kind": "dram", "word_bits": 8, "energy": {"read_pj": 1, "fill_pj": 1}}
    return {"levels": [dram, {**LEVEL, "sparsity": SPARSITY | sparsity}], "mac": {"energy_pj": 1, "zeros": "skipping"}}


def test_own_files_are_read_and_written_back() -> None:
    computation = computation_from_json(PROBLEM)
    assert [t.density for t in computation.tensors][:2] == [Uniform(0.6), Structured(2, 4, 0)]
    assert computation_from_json(computation_to_json(computation)) == computation
    architecture = architecture_from_json(machine())
    assert architecture.mac.zeros is ZeroKind.SKIP
    assert architecture.level("Buffer").sparsity == LevelSparsity(
        (
            TensorFormat("weight", (Rank(RankFormat.COORDINATES),), flat=True),
            TensorFormat("I", (Rank(RankFormat.OFFSETS, payload_bits=9), Rank(RankFormat.BITMASK))),
        ),
        (ZeroAction(ZeroKind.SKIP, "weight", ("input",)),),
        4,
        64,
    )
    assert architecture_from_json(architecture_to_json(architecture)) == architecture


@pytest.mark.parametrize(
    ("density", "message"),
    [
        (1.5, "density must be a number from 0 to 1, got 1.5.*density"),
        ({"density": -0.2}, "got -0.2"),
        ({"model": "gauss"}, "unknown density model 'gauss'"),
        ({"model": "structured", "n": 2, "m": 5, "axis": 0}, "2:5: blocks of 5 do not divide axis 0 of 12"),
        ({"model": "actual", "file": "nowhere.npy"}, "the mask 'nowhere.npy' cannot be read"),
        ({"model": "uniform", "density": 0.5, "mean": 1}, "unknown key 'mean'"),
        ({"model": "sliced", "axis": 0, "nonzeros": [0], "words": 0}, "`words` must be an integer >= 1, got 0"),
        ({"model": "sliced", "axis": 0, "nonzeros": ["x"], "words": 4}, "`nonzeros` must be an integer, got 'x'"),
    ],
)
def test_a_wrong_density_is_refused(density: Any, message: str) -> None:
    problem = copy.deepcopy(PROBLEM)
    problem["tensors"]["W"]["density"] = density
    with pytest.raises(UserError, match=message):
        computation_from_json(problem)


def test_a_mask_from_a_file(tmp_path: Path) -> None:
    mask = np.eye(12, 4)
    np.save(tmp_path / "w.npy", mask)
    assert density_from_json({"model": "actual", "file": str(tmp_path / "w.npy")}, "here") == Actual(mask != 0)
    np.savetxt(tmp_path / "w.txt", mask)
    assert density_from_json({"model": "actual", "file": str(tmp_path / "w.txt")}, "here") == Actual(mask != 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"formats": {"weight": "zip"}}, "unknown format 'zip'.*level 'Buffer'"),
        ({"actions": [{"kind": "jumping", "follower": "I", "leaders": ["W"]}]}, "unknown `kind` 'jumping'"),
        ({"actions": [{"kind": "gating", "follower": "I"}]}, "gating of 'I' needs at least one leader"),
        ({"actions": [{"kind": "gating", "follower": "I", "leaders": "W"}]}, "`leaders` must be a list, got 'W'"),
        ({"formats": {"W": {"ranks": [{"format": "offsets", "dims": "CK"}]}}}, "`dims` must be a list, got 'CK'"),
        ({"metadata_bits": 0}, "`metadata_bits` must be an integer >= 1, got 0"),
        ({"colour": 1}, "unknown key 'colour'"),
    ],
)
def test_a_wrong_level_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        architecture_from_json(machine(**change))


def test_a_format_needs_a_level_that_keeps_the_tensor() -> None:
    value = machine()
    value["levels"][1]["keep"] = ["weight", "output"]
    architecture = architecture_from_json(value)
    computation = computation_from_json(PROBLEM)
    from codesign.mapping.mapping import LevelMapping, Mapping

    mapping = Mapping.from_levels(
        [LevelMapping("DRAM", ("I", "W", "O"), (("m", 8),)), LevelMapping("Buffer", ("W", "O"), (("k", 12), ("n", 4)))]
    )
    with pytest.raises(UserError, match="level 'Buffer' has a format for 'I', which it may not keep"):
        expect(computation, architecture, mapping)


TIMELOOP = """
architecture:
  version: 0.4
  nodes:
  - !Component {name: DRAM, class: DRAM, attributes: {width: 8, datawidth: 8}}
  - !Component
    name: Buffer
    class: SRAM
    attributes: {depth: 64, width: 8, datawidth: 8, metadata_storage_width: 64, metadata_datawidth: 4}
    sparse_optimizations:
      representation_format:
        data_spaces:
        - name: A
          apply_rank_inner_to_outer: true
          ranks: [{format: UOP, payload_word_bits: 8}, {format: RLE, metadata_word_bits: 4}]
  - !Component {name: MAC, class: intmac, attributes: {datawidth: 8}}
sparse_optimizations:
  targets:
  - name: Buffer
    action_optimization:
    - {type: skipping, options: [{target: B, condition_on: [A]}]}
  - name: MAC
    compute_optimization: [{type: skip_on_not_aligned_operands}]
problem:
  version: 0.4
  shape:
    name: gemm
    dimensions: [M, K, N]
    data_spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[K]], [[N]]]}
    - {name: Z, projection: [[[M]], [[N]]], read_write: true}
  instance: {M: 4, K: 8, N: 4, densities: {A: {distribution: hypergeometric, density: 0.5}, B: 0.25}}
mapping:
- {target: DRAM, type: temporal, factors: M=4 K=1 N=1, permutation: KNM}
- {target: Buffer, type: temporal, factors: M=1 K=8 N=4, permutation: KNM}
"""
ENERGIES = """
ERT:
  version: 0.4
  tables:
  - {name: DRAM, actions: [{name: read, energy: 10}, {name: write, energy: 10}, {name: update, energy: 10}]}
  - {name: Buffer, actions: [{name: read, energy: 1}, {name: write, energy: 1}, {name: update, energy: 1}]}
  - {name: MAC, actions: [{name: compute, energy: 1}]}
"""


def test_timeloop_files_are_read_and_evaluated(tmp_path: Path) -> None:
    path, energies = tmp_path / "all.yaml", tmp_path / "ert.yaml"
    path.write_text(TIMELOOP)
    energies.write_text(ENERGIES)
    inputs = load_inputs([path, energies])
    computation, architecture = inputs.need_computation(), inputs.need_architecture()
    assert computation.tensor("A").density == Uniform(0.5)
    assert computation.tensor("B").density == Proportional(0.25)
    buffer = architecture.level("Buffer").sparsity
    assert buffer.formats[0].ranks == (Rank(RankFormat.OFFSETS, None, 8), Rank(RankFormat.RUN_LENGTH, 4))
    assert buffer.actions == (ZeroAction(ZeroKind.SKIP, "B", ("A",)),)
    assert (buffer.metadata_bits, buffer.metadata_word_bits) == (4, 64)
    assert architecture.mac.zeros is ZeroKind.SKIP
    cost = evaluate(computation, architecture, inputs.need_mapping())
    assert isinstance(cost, Cost)
    reads = next(t for t in cost.levels[1].tensors if t.tensor == "B")
    assert reads.zeros is not None
    assert (reads.zeros.dense_reads, reads.reads, reads.zeros.skipped_reads) == (128, 64, 64)
    assert cost.zero_macs is not None
    assert cost.zero_macs.actual + cost.zero_macs.skipped == pytest.approx(64)


def test_what_timeloop_cannot_say_is_refused() -> None:
    problem = computation_to_timeloop(Computation.parse("C[m] += A[m,k] * B[k]", m=4, k=8))
    assert "densities" not in problem
    sparse = computation_from_timeloop({**problem, "densities": {"A": {"distribution": "banded", "band_width": 1}}})
    assert sparse.tensor("A").density == Banded(1)
    assert computation_from_timeloop(computation_to_timeloop(sparse)) == sparse
    with pytest.raises(UserError, match="'structured' of 'W' is not written in Timeloop's form"):
        computation_to_timeloop(computation_from_json(PROBLEM))
    with pytest.raises(UserError, match="gating and skipping are not written"):
        architecture_to_timeloop(architecture_from_json(machine()), {"DRAM": 8, "Buffer": 8})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hypergeometric", "normal", "unknown distribution 'normal'"),
        ("B: 0.25", "B: 2", "density must be a number from 0 to 1, got 2"),
        ("format: RLE", "format: ZIP", "unknown rank format 'ZIP'"),
        ("type: skipping", "type: hopping", "unknown type 'hopping'"),
        ("- name: Buffer\n    action", "- name: Cache\n    action", "unknown level 'Cache'"),
        ("skip_on_not_aligned_operands", "skip_all", "unknown compute optimization 'skip_all'"),
    ],
)
def test_wrong_timeloop_files(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TIMELOOP
    path, energies = tmp_path / "all.yaml", tmp_path / "ert.yaml"
    path.write_text(TIMELOOP.replace(old, new))
    energies.write_text(ENERGIES)
    with pytest.raises(UserError, match=message):
        load_inputs([path, energies])
    yaml.safe_load(ENERGIES)
