"""Density models of problem files, read: a number is `uniform`, else keys and values with a `model`.

```yaml
tensors:
  W: {density: {model: structured, n: 2, m: 4, axis: 0}}
  A: {density: 0.35}
```
"""

from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields
from codesign.workloads.density import (
    DENSE,
    Actual,
    Banded,
    Density,
    Proportional,
    Sliced,
    Structured,
    Uniform,
    check_density,
)

MODELS = ("dense", "uniform", "proportional", "structured", "banded", "sliced", "actual")


def density_from_json(value: Any, where: str) -> Density:
    """The model a file names.

    Raises:
        UserError: No density, an unknown model, or a mask that cannot be read.
    """
    try:
        if not isinstance(value, dict):
            check_density(value)
            return DENSE if value == 1 else Uniform(float(value))
        fields = Fields(value, where)
        model = fields.text("model", "uniform")
        if model not in MODELS:
            raise unknown_name("density model", model, list(MODELS), where=where)
        found = _read(model, fields)
        fields.finish()
    except UserError as error:
        raise (error if error.where else error.within(where)) from None
    return found


def _read(model: str, fields: Fields) -> Density:
    if model in ("uniform", "proportional"):
        density = fields.raw("density")
        check_density(density)
        return Uniform(float(density)) if model == "uniform" else Proportional(float(density))
    if model == "structured":
        return Structured(fields.integer("n"), fields.integer("m"), fields.integer("axis", -1))
    if model == "banded":
        return Banded(fields.integer("width"), fields.integer("row", -2), fields.integer("column", -1))
    if model == "sliced":
        counts = tuple(int(n) for n in fields.items("nonzeros"))
        return Sliced(fields.integer("axis"), counts, fields.integer("words", least=1))
    return DENSE if model == "dense" else read_mask(Path(fields.text("file")), fields.where)


def read_mask(path: Path, where: str) -> Actual:
    """The non-zeros of a `.npy` file, or of a text file of numbers, one row a line.

    Raises:
        UserError: The file cannot be read.
    """
    try:
        values = np.load(path) if path.suffix == ".npy" else np.loadtxt(path, ndmin=1)
    except (OSError, ValueError) as error:
        raise UserError(f"the mask {str(path)!r} cannot be read: {error}", where=where) from None
    return Actual(np.asarray(values != 0), str(path))
