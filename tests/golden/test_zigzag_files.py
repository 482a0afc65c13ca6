"""ZigZag's accelerator and workload files against what that program says of them in its runs."""

import json
from pathlib import Path

import pytest

from codesign.formats.documents import Kind, parse_yaml, read_documents
from codesign.formats.load import load_inputs
from codesign.formats.zigzag.problem import computation_from_zigzag
from tests.reference_data import REFERENCE, needs_data, supporting_files

ACCELERATORS = sorted((REFERENCE / "zigzag" / "inputs").glob("*.yaml"))
LAYERS = sorted((REFERENCE / "zigzag" / "layers").glob("*/*.json"))
OPERANDS = {"I": "input", "W": "weight", "O": "output"}


@pytest.mark.parametrize("path", ACCELERATORS, ids=lambda path: path.stem)
def test_every_memory_is_a_level_with_its_size_operands_and_instances(path: Path) -> None:
    (document,) = read_documents(path)
    assert document.kind is Kind.ARCHITECTURE
    (given,) = parse_yaml(path.read_text(), str(path))
    architecture = load_inputs([path]).need_architecture()
    array = dict(zip(given["operational_array"]["dimensions"], given["operational_array"]["sizes"], strict=True))
    assert {level.name for level in architecture.levels} == set(given["memories"])
    for level, instances in zip(architecture.levels, architecture.instances, strict=True):
        memory = given["memories"][level.name]
        roles = {{"I1": "input", "I2": "weight", "O": "output"}[o] for o in memory["operands"]}
        assert level.capacity_bits == memory["size"] and level.keep == roles
        expected = 1
        for dim, size in array.items():
            expected *= 1 if dim in memory["served_dimensions"] else size
        assert instances == expected
        assert level.energy is not None and level.energy.read_pj == memory["r_cost"]


@pytest.mark.parametrize("path", LAYERS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_operands_pass_through_the_memories_that_the_runs_list(path: Path) -> None:
    layer = json.loads(path.read_text())
    (accelerator,) = supporting_files("zigzag/inputs", f"{path.parent.name}.yaml")
    architecture = load_inputs([accelerator]).need_architecture()
    for operand, memories in layer["memory_levels"].items():
        kept = [level.name for level in reversed(architecture.levels) if OPERANDS[operand] in level.keep]
        assert kept == memories
    entry = {
        "equation": layer["equation"],
        "dimension_relations": [f"{i}={layer['stride']}*o{i[1]}+1*f{i[1]}" for i in ("ix", "iy")],
        "loop_dims": list(layer["loop_dims"]),
        "loop_sizes": list(layer["loop_dims"].values()),
        "operand_precision": layer["precision_bits"],
    }
    computation = computation_from_zigzag([entry])
    assert computation.macs == layer["total_mac_count"]
    holes = layer["stride"] > min(layer["loop_dims"].get("FX", 1), layer["loop_dims"].get("FY", 1))
    for tensor in computation.tensors:
        if (
            tensor.name == "I" and holes
        ):  # a box includes the elements a stride steps over; that program leaves them out
            continue
        assert computation.tensor_words(tensor) == layer["operand_size_elem"][tensor.name]


def test_there_is_something_to_compare_with() -> None:
    needs_data("zigzag", ACCELERATORS or LAYERS)
