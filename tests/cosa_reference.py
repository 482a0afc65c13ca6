"""Reads the reference cases of the CoSA data set into the project's values."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, StorageLevel
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.computation import Computation
from tests.reference_data import REFERENCE, supporting_files

DATA = REFERENCE / "cosa"


@dataclass(frozen=True)
class Case:
    """One optimum."""

    network: str
    layer: str
    reading: str
    problem: MappingProblem
    expected: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.network} {self.layer} {self.reading}"


def architecture() -> Architecture:
    """The machine of the published program, counted in entries; the energies are not part of it."""
    energy = AccessEnergy(1, 1, 1)

    def level(name: str, entries: int | None, keep: set[str], fanout: Fanout) -> StorageLevel:
        return StorageLevel(
            name,
            capacity_bytes=entries,
            word_bits=8,
            one_element_per_word=True,
            keep=frozenset(keep),
            energy=energy,
            fanout=fanout,
        )

    return Architecture(
        "published program",
        (
            level("DRAM", None, {"input", "weight", "output"}, Fanout()),
            level("GlobalBuffer", 65536, {"input", "output"}, Fanout(4, 4)),
            level("InputBuffer", 4096, {"input"}, Fanout(8)),
            level("WeightBuffer", 16384, {"weight"}, Fanout()),
            level("AccumulationBuffer", 64, {"output"}, Fanout(8)),
            level("Registers", 1, {"weight"}, Fanout()),
        ),
        Arithmetic(energy_pj=1.0),
    )


def computation(layer: dict[str, Any]) -> Computation:
    notation = f"O[n,k,p,q] += I[n,c,{layer['stride_w']}*p+r,{layer['stride_h']}*q+s] * W[k,c,r,s]"
    return Computation.parse(notation, {d.lower(): layer[d] for d in "RSPQCKN"}, name=layer["name"])


def layers(network: str) -> dict[str, dict[str, Any]]:
    """Layers by name of the list whose file name starts with the network's name; the shortest such name wins."""
    files = sorted(supporting_files("cosa/layers", f"{network}*.json"), key=lambda p: len(p.name))
    return {layer["name"]: layer for layer in json.loads(files[0].read_text())["unique_layers"]}


def cases() -> Iterator[Case]:
    """Every optimum of every network and reading of every file of that form."""
    for path in sorted(DATA.glob("*.json")):
        for network, found in json.loads(path.read_text()).items():
            if not all(isinstance(v, dict) and isinstance(v.get("paper"), dict) for v in found.values()):
                continue
            known = layers(network)
            for name, readings in found.items():
                for reading, expected in readings.items():
                    problem = MappingProblem(computation(known[name]), architecture())
                    yield Case(network, name, reading, problem, expected)


def published() -> Iterator[Case]:
    """The optima of the published formulation, solved with its own solver."""
    for path in sorted(DATA.glob("gurobi_*_head.json")):
        network = path.name.split("_")[1]
        known = layers(network)
        for name, expected in json.loads(path.read_text()).items():
            yield Case(network, name, "head", MappingProblem(computation(known[name]), architecture()), expected)
