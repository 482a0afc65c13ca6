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
    Dense,
    Density,
    Proportional,
    Sliced,
    Structured,
    Uniform,
    check_density,
)

_MODELS: dict[str, type[Density]] = {
    kind.model: kind for kind in (Dense, Uniform, Proportional, Structured, Banded, Sliced, Actual)
}


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
        if model not in _MODELS:
            raise unknown_name("density model", model, list(_MODELS), where=where)
        return _read(model, fields)
    except UserError as error:
        raise (error if error.where else error.within(where)) from None


def _read(model: str, fields: Fields) -> Density:
    if model == "dense":
        fields.finish()
        return DENSE
    if model == "actual":
        path = fields.text("file")
        fields.finish()
        return read_mask(Path(path), fields.where)
    return fields.record(_MODELS[model])


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
