"""What docstrings say of fields: read by the command line and, in `experiments`, by the schema of study files."""

import inspect
import re
from typing import Any


def field_texts(kind: type[Any]) -> dict[str, str]:
    """What the docstring of a class says of its fields.

    >>> from codesign.core.goals import Budget
    >>> field_texts(Budget)["time_limit_s"]
    'Wall-clock seconds.'
    """
    _, _, arguments = (inspect.getdoc(kind) or "").partition("Args:\n")
    found: dict[str, str] = {}
    name = ""
    for line in arguments.split("\n"):
        start = re.match(r"    (\w+): (.*)", line)
        if start is not None:
            name = start[1]
            found[name] = start[2]
        elif line.startswith("      ") and name:
            found[name] += " " + line.strip()
        else:
            break
    return found
