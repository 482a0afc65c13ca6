"""Zeros that a run of a network has recorded, as a file: densities by tensor, and masks beside it (rule Z7).

```json
{"zeros": {"network": "digits", "samples": 32, "operands": [
  {"operator": "conv0", "kind": "input", "tensor": "picture", "density": 0.5, "least": 0.4, "most": 0.6, "mask": "zeros.masks/0.npy"}]}}
```
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codesign.core.errors import UserError
from codesign.core.fields import Fields
from codesign.core.files import read_structured, write_json
from codesign.core.json_types import JsonObject
from codesign.workloads.density import check_density
from codesign.workloads.onnx.observed import ObservedTensor

KINDS = ("weight", "input", "output")
"""Parameters of matrix operators, what they read beside, what they write."""
_ROUNDED = 1e-9


@dataclass(frozen=True)
class RecordedOperand:
    """One operand of a file.

    Args:
        operator: Name.
        kind: One of `KINDS`.
        tensor: Name in the network.
        density: Share of non-zeros.
        mask: File of the mask; None without.
    """

    operator: str
    kind: str
    tensor: str
    density: float
    mask: Path | None


def write_zeros(path: Path, network: str, samples: int, seen: Sequence[ObservedTensor]) -> None:
    """Write the file, and masks as `.npy` in a folder beside it."""
    folder = path.with_name(f"{path.stem}.masks")
    operands = []
    for index, one in enumerate(seen):
        entry: JsonObject = {
            "operator": one.operator,
            "kind": one.kind,
            "tensor": one.tensor,
            "density": one.density,
            "least": one.least,
            "most": one.most,
        }
        if one.mask is not None:
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"{index}.npy", one.mask)
            entry["mask"] = f"{folder.name}/{index}.npy"
        operands.append(entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"zeros": {"network": network, "samples": samples, "operands": operands}})


def read_zeros(path: Path) -> tuple[RecordedOperand, ...]:
    """The operands of a file.

    Raises:
        UserError: It is missing or malformed, or a density is none.
    """
    try:
        document = read_structured(path)
    except json.JSONDecodeError as error:
        raise UserError(f"not JSON: {error}", where=str(path)) from None
    top = Fields(document, str(path))
    fields = top.child("zeros")
    top.finish()
    fields.text("network", "")
    fields.integer("samples", 0, least=0)
    found = []
    for index, value in enumerate(fields.items("operands")):
        entry = Fields(value, f"{path}: operand {index + 1}")
        kind = entry.text("kind")
        if kind not in KINDS:
            raise UserError(f"`kind` must be {', '.join(KINDS)}, got {kind!r}", where=entry.where)
        density = entry.raw("density")
        try:
            check_density(density)
        except UserError as error:
            raise error.within(entry.where) from None
        mask = entry.text("mask", None)
        _check_spread(entry, float(density))
        found.append(
            RecordedOperand(
                entry.text("operator"),
                kind,
                entry.text("tensor"),
                float(density),
                None if mask is None else path.parent / mask,
            )
        )
        entry.finish()
    fields.finish()
    return tuple(found)


def _check_spread(entry: Fields, density: float) -> None:
    """The shares of single samples, where they are given: the density lies between them.

    Raises:
        UserError: It does not, or one is no density.
    """
    least, most = entry.raw("least", density), entry.raw("most", density)
    try:
        check_density(least)
        check_density(most)
    except UserError as error:
        raise error.within(entry.where) from None
    if not least <= density + _ROUNDED or not density <= most + _ROUNDED:
        raise UserError(
            f"`density` {density:g} must lie between `least` {least:g} and `most` {most:g}", where=entry.where
        )
