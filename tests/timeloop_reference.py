"""Reads the reference cases of the Timeloop data set into the project's values."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, StorageLevel
from codesign.formats.timeloop.added_levels import level_by_level
from codesign.formats.timeloop.mapping import directives_of
from codesign.mapping.mapping import LevelMapping, Mapping
from codesign.workloads.computation import AffineIndex, Computation, Role, Tensor
from tests.reference_data import REFERENCE


@dataclass(frozen=True)
class Case:
    """One recorded run: what went in, and what the tool printed."""

    name: str
    computation: Computation
    architecture: Architecture
    mapping: Mapping
    expected: dict[str, Any]


def mapping_to_timeloop(
    mapping: Mapping, computation: Computation, architecture: Architecture
) -> list[dict[str, object]]:
    """The directives of a mapping with one place per level; `mapping_from_timeloop` gives a mapping of equal counts back."""
    return directives_of(level_by_level(mapping, architecture, allow_added=False).levels, computation)


def cases() -> Iterator[Case]:
    """Every case of every file of the data set."""
    for path in sorted((REFERENCE / "timeloop").glob("*.json")):
        data = json.loads(path.read_text())
        if "cases" not in data or "shapes" not in data:
            continue
        architecture = read_architecture(data)
        for case in data["cases"]:
            yield Case(
                case["id"],
                read_computation(data["shapes"], case["problem"]),
                architecture,
                read_mapping(case["mapping"]),
                case.get("timeloop_no_link_transfers") or case["timeloop"],
            )


def read_architecture(data: dict[str, Any]) -> Architecture:
    levels = []
    for item in data["arch"]["levels"]:
        bits = item["word_bits"]
        energy = item["energy_pj_per_word"]
        size = item["size_words"]
        x, y = data["fanout_below_level_xy"][item["name"]]
        levels.append(
            StorageLevel(
                name=item["name"],
                kind=LevelKind.DRAM if size is None else LevelKind.SRAM,
                capacity_bytes=None if size is None else size * bits / 8,
                word_bits=bits,
                one_element_per_word=True,
                read_bandwidth_words_per_cycle=item["read_bandwidth_words_per_cycle_per_instance"],
                write_bandwidth_words_per_cycle=item["write_bandwidth_words_per_cycle_per_instance"],
                energy=AccessEnergy(energy["read"], energy["fill"], energy["update"]),
                fanout=Fanout(x, y),
            )
        )
    mac = data["arch"]["mac"]
    return Architecture(
        data["arch"]["name"], tuple(levels), Arithmetic(bits=mac["word_bits"], energy_pj=mac["energy_pj"])
    )


def read_computation(shapes: dict[str, Any], problem: dict[str, Any]) -> Computation:
    shape = shapes[problem["shape"]]
    coefficients = {c["name"]: problem.get(c["name"], c["default"]) for c in shape.get("coefficients", [])}
    tensors = []
    for space in shape["data-spaces"]:
        axes = tuple(
            AffineIndex(tuple((term[0], coefficients[term[1]] if len(term) > 1 else 1) for term in axis))
            for axis in space["projection"]
        )
        if space.get("read-write"):
            output = Tensor(space["name"], axes, Role.OUTPUT)
        else:
            tensors.append(Tensor(space["name"], axes, Role.WEIGHT if space["name"] == "Weights" else Role.INPUT))
    dims = tuple(shape["dimensions"])
    return Computation(dims, tuple(problem["dims"][d] for d in dims), (*tensors, output), problem["name"])


def read_mapping(levels: list[dict[str, Any]]) -> Mapping:
    return Mapping.from_levels(
        LevelMapping(
            item["level"],
            tuple(item["keep"]),
            tuple((d, f) for d, f in item["temporal"]),
            tuple((d, f, axis.lower()) for d, f, axis in item["spatial"]),
        )
        for item in levels
    )
