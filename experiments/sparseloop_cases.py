"""Recorded cases of Sparseloop's artifact (MICRO 2022) as values of this library: `experiments.sparseloop` compares them.

A folder holds `cases.csv`, `counts.csv`, `mappings.json`, `architectures.json`, and perhaps `mask_nonzeros.json` and
`eyerissv2_pe_mobilenet.csv`. The energies of the components are not among the files.
"""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, Links, StorageLevel
from codesign.arch.sparsity import LevelSparsity, TensorFormat, ZeroAction, ZeroKind
from codesign.core.errors import UserError, unknown_name
from codesign.formats.timeloop.sparse import density_from_timeloop, metadata_widths, rank_from_timeloop
from codesign.mapping.mapping import Axis, LevelMapping, Mapping
from codesign.workloads.computation import Computation
from codesign.workloads.density import DENSE, Density, Sliced, Uniform

SHAPES = {
    "gemm-ABZ": "Z[M,N] += A[M,K] * B[K,N]",
    "MatrixMultiply": "Z[M,N] += A[M,K] * B[K,N]",
    "grouped-CONV": "Outputs[N,G,M,E,F] += Inputs[N,G,C,E+R,F+S] * Weights[G,M,C,R,S]",
    "CNN-Layer": (
        "Outputs[N,M,Q,P] += Weights[C,M,R,S] * Inputs[N,C,{Wstride}*P+{Wdilation}*R,{Hstride}*Q+{Hdilation}*S]"
    ),
}
"""Projections of the problem shapes, which the files name only."""

_COEFFICIENTS = ("Wstride", "Hstride", "Wdilation", "Hdilation")
_LOOP = re.compile(r"([A-Z])(\d+)([XY]?)$")


@dataclass(frozen=True)
class Case:
    """One recorded run.

    Args:
        name: As recorded.
        row: Its row of `cases.csv`.
        counts: Its rows of `counts.csv`.
        computation: With densities.
        architecture: With formats and actions; energies are zero.
        mapping: The recorded nest.
        notes: What the folder lacks and what stands in its place.
    """

    name: str
    row: dict[str, str]
    counts: tuple[dict[str, str], ...]
    computation: Computation
    architecture: Architecture
    mapping: Mapping
    notes: tuple[str, ...]


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file; none where there is no file."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is no file."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return dict(found)


@dataclass(frozen=True)
class Unread:
    """A recorded run that this library cannot express.

    Args:
        name: As recorded.
        reason: The message.
    """

    name: str
    reason: str


def read_cases(folder: Path) -> list[Case]:
    """All recorded runs of a folder.

    Raises:
        UserError: The folder has no cases, or one cannot be read.
    """
    found = list(read_each(folder))
    for case in found:
        if isinstance(case, Unread):
            raise UserError(case.reason, where=case.name)
    return [case for case in found if isinstance(case, Case)]


def read_each(folder: Path) -> Iterator[Case | Unread]:
    """The recorded runs of a folder one by one, and why one cannot be read.

    Raises:
        UserError: The folder has no cases.
    """
    rows = read_rows(folder / "cases.csv")
    if not rows:
        raise UserError("no recorded case", where=str(folder / "cases.csv"), hint="name the folder with --data")
    counts: dict[str, list[dict[str, str]]] = {}
    for row in read_rows(folder / "counts.csv"):
        counts.setdefault(row["case"], []).append(row | {"tensor": row["tensor"].removesuffix(" (Streamed)")})
    recorded = _Recorded(
        read_json(folder / "mappings.json"),
        read_json(folder / "architectures.json"),
        read_json(folder / "mask_nonzeros.json"),
        read_rows(folder / "eyerissv2_pe_mobilenet.csv"),
    )
    for row in rows:
        try:
            yield _read_case(row, counts.get(row["case"], []), recorded)
        except UserError as error:
            yield Unread(row["case"], str(error))


@dataclass(frozen=True)
class _Recorded:
    """The files that several cases share."""

    mappings: dict[str, Any]
    architectures: dict[str, Any]
    masks: dict[str, Any]
    layers: list[dict[str, str]]


def _read_case(row: dict[str, str], counts: list[dict[str, str]], recorded: _Recorded) -> Case:
    name = row["case"]
    tables = (("mapping", recorded.mappings, name), ("architecture", recorded.architectures, row["architecture"]))
    for what, table, key in tables:
        if key not in table:
            raise UserError(f"case {name!r} has no {what} {key!r}")
    nest = [(str(level), str(loops)) for level, loops in recorded.mappings[name]]
    computation, notes = _with_densities(_computation(row, nest), row, recorded.masks, recorded.layers)
    keep = {level: [r["tensor"] for r in counts if r["level_name"] == level] for level, _ in nest}
    described = recorded.architectures[row["architecture"]]
    architecture = _architecture(row["architecture"], described, nest, keep)
    return Case(name, row, tuple(counts), computation, architecture, _mapping(nest, keep), notes)


def _loops(text: str) -> list[tuple[str, int, str]]:
    """(dimension, factor, axis) of the loops of a level; the axis of a temporal loop is empty."""
    found = []
    for word in text.split():
        match = _LOOP.match(word)
        if match is None:
            raise UserError(f"a loop must read like M8 or M16Y, got {word!r}")
        found.append((match[1], int(match[2]), match[3]))
    return found


def _computation(row: dict[str, str], nest: list[tuple[str, str]]) -> Computation:
    """The operator, as large as the loops make it (they may pad)."""
    if row["shape"] not in SHAPES:
        raise unknown_name("problem shape", row["shape"], list(SHAPES), where=row["case"])
    given = {key: int(value) for key, value in (pair.split("=") for pair in row["problem"].split())}
    notation = SHAPES[row["shape"]].format(**{key: given.get(key, 1) for key in _COEFFICIENTS})
    bounds: dict[str, int] = dict.fromkeys(sorted(set(re.findall(r"\b[A-Z]\b", _axes(notation)))), 1)
    for _, text in nest:
        for dim, factor, _ in _loops(text):
            bounds[dim] *= factor
    return Computation.parse(notation, bounds, name=row["case"])


def _axes(notation: str) -> str:
    return " ".join(re.findall(r"\[(.*?)\]", notation))


def _with_densities(
    computation: Computation, row: dict[str, str], masks: dict[str, Any], layers: list[dict[str, str]]
) -> tuple[Computation, tuple[str, ...]]:
    tensors, notes = [], []
    recorded = json.loads(row["densities"])
    for tensor in computation.tensors:
        given = recorded.get(tensor.name)
        density: Density = DENSE
        if isinstance(given, dict) and given.get("distribution") == "real-data":
            layer = next((x for x in row["case"].split("-") if re.fullmatch(r"L\d+", x)), "")
            density, note = _of_mask(computation, tensor.name, layer, masks, layers)
            notes.extend([note] if note else [])
        elif given is not None:
            density = density_from_timeloop(given, row["case"])
        tensors.append(replace(tensor, density=density))
    return replace(computation, tensors=tuple(tensors)), tuple(notes)


def _of_mask(
    computation: Computation, name: str, layer: str, masks: dict[str, Any], layers: list[dict[str, str]]
) -> tuple[Density, str]:
    """The non-zeros per channel where the folder has them, else the mask's density."""
    channels = next(
        a for a, axis in enumerate(computation.tensor(name).axes) if axis.terms[0][0] == "C" and len(axis.terms) == 1
    )
    kind = "input" if name == "Inputs" else "weight"
    if layer in masks:
        counts = masks[layer][f"{kind}_nonzeros_per_channel"]
        words = masks[layer]["pixels" if kind == "input" else "M"]
        return Sliced(channels, tuple(int(n) for n in counts), int(words)), ""
    for row in layers:
        if row["layer"] == layer and row.get(f"mask_density_{kind}s"):
            return Uniform(float(row[f"mask_density_{kind}s"])), f"no mask of {layer}: its density stands for {name}"
    raise UserError(f"the folder has neither masks nor densities of layer {layer!r}", where=computation.name)


def _architecture(
    name: str, recorded: dict[str, Any], nest: list[tuple[str, str]], keep: dict[str, list[str]]
) -> Architecture:
    """The hardware with the fan-outs the mapping uses: where children are skipped it may use more than there are (law A5)."""
    described = {level["name"].split("[")[0]: level for level in recorded["levels"]}
    for level, _ in nest:
        if level not in described:
            raise unknown_name("level", level, list(described), where=f"architecture {name!r}")
    levels = []
    for level, text in nest:
        x = y = 1
        for _, factor, axis in _loops(text):
            x, y = (x * factor if axis == "X" else x), (y * factor if axis == "Y" else y)
        about = described[level]
        width = int(about.get("metadata_storage_width") or 0)
        sparsity = LevelSparsity(
            tuple(_format(f) for f in recorded["formats"] if f["level"] == level),
            tuple(
                ZeroAction(ZeroKind(s["kind"]), s["target"], tuple(s["condition-on"]))
                for s in recorded["saf"]
                if s["level"] == level
            ),
        )
        levels.append(
            StorageLevel(
                level,
                word_bits=int(about.get("datawidth", 16)),
                one_element_per_word=True,
                keep=frozenset(keep[level]) or frozenset({"input", "weight", "output"}),
                read_bandwidth_words_per_cycle=about.get("read_bandwidth"),
                write_bandwidth_words_per_cycle=about.get("write_bandwidth"),
                energy=AccessEnergy(0.0, 0.0, 0.0),
                fanout=Fanout(x, y, Links.MULTICAST),
                sparsity=metadata_widths(sparsity, int(about.get("metadata_datawidth") or 0), width),
            )
        )
    zeros = [ZeroKind(s["kind"].removeprefix("compute ")) for s in recorded["saf"] if s["kind"].startswith("compute ")]
    return Architecture(name, tuple(levels), Arithmetic(energy_pj=0.0, zeros=zeros[0] if zeros else None))


def _format(recorded: dict[str, Any]) -> TensorFormat:
    """A format. The recorded tool reads `flattened-rankIDs`, not `flattened_rankIDs`: ranks with the latter take one loop."""
    ranks = tuple(
        rank_from_timeloop({k: v for k, v in rank.items() if k != "flattened_rankIDs"}, recorded["level"])
        for rank in recorded["ranks"]
    )
    return TensorFormat(recorded["tensor"], ranks, recorded["order"] == "inner-to-outer")


def _mapping(nest: list[tuple[str, str]], keep: dict[str, list[str]]) -> Mapping:
    levels = []
    for level, text in nest:
        loops = _loops(text)
        spatial: list[tuple[str, int, Axis]] = [(d, f, "x" if a == "X" else "y") for d, f, a in loops if a]
        levels.append(
            LevelMapping(level, tuple(keep[level]), tuple((d, f) for d, f, a in loops if not a), tuple(spatial))
        )
    return Mapping.from_levels(levels)
