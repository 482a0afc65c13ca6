"""The one door for graphs: a network, or a file in a form that one kind of scheduler reads as it is.

Which form a file has, and which options do not apply to it, is decided here alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, final

from codesign.core.errors import UserError
from codesign.core.files import read_structured
from codesign.workloads.load import load_network
from codesign.workloads.network import Network


class GraphForm(Enum):
    """Forms besides a network; the value says what is fixed in it."""

    LAYERS = "a graph with fixed shapes"
    BYTES = "a graph whose sizes are given in bytes"
    EXPORTED = "a program that was exported for one shape"


@final
@dataclass(frozen=True)
class GraphFile:
    """A file in one of the forms.

    Args:
        form: Which.
        path: Of the file.
        value: What it holds; empty for a program, which is read from the path.
    """

    form: GraphForm
    path: str
    value: Mapping[str, Any]

    def refuse(self, reader: str, other: str) -> UserError:
        """The error of a reader that knows other forms.

        Args:
            reader: Who reads.
            other: Who reads this form.
        """
        return UserError(f"{reader} does not read {self.form.value}", where=self.path, hint=f"{other} does")


def open_graph(
    name_or_path: str | Path,
    *,
    batch: int | None = None,
    seq: int | None = None,
    past: int | None = None,
    phase: str | None = None,
    dims: Mapping[str, int] | None = None,
    bits: int = 8,
    fuse: bool = True,
) -> Network | GraphFile:
    """What a name or a path stands for.

    Args:
        name_or_path: A name of the zoo; ``.onnx``; ``.pt2`` of `torch.export`; ``.json`` or ``.yaml``: a network, a layer graph with
            ``layers``, or a graph in bytes with ``ops``.
        batch: Inferences that run together; a layer graph takes any.
        seq: Sequence length, for networks that have one.
        past: Tokens in the cache, for networks that have phases.
        phase: ``prefill`` or ``decode``, for networks that have phases.
        dims: Lengths of an ONNX file's free axes, by name.
        bits: Width of an element, where the file does not say bytes.
        fuse: Whether functions are fused into their producers, of networks.

    Raises:
        UserError: An unknown name, a file that cannot be read, or an option that does not apply to its form.
    """
    found = graph_file(name_or_path)
    if found is None:
        return load_network(name_or_path, batch=batch, seq=seq, past=past, phase=phase, dims=dims, bits=bits, fuse=fuse)
    fixed = {"batch": None if found.form is GraphForm.LAYERS else batch, "seq": seq, "past": past, "phase": phase}
    for option, given in {**fixed, "dims": dims}.items():
        if given is not None:
            raise UserError(f"--{option} does not apply to {found.form.value}", where=found.path)
    return found


def graph_file(name_or_path: str | Path) -> GraphFile | None:
    """The file in one of the forms; None for networks and names.

    Raises:
        UserError: A JSON file that cannot be read.
    """
    path = Path(name_or_path)
    if path.suffix == ".pt2":
        return GraphFile(GraphForm.EXPORTED, str(path), {})
    if path.suffix != ".json" or not path.is_file():
        return None
    value = read_structured(path)
    if not isinstance(value, dict):
        return None
    body = value.get("network", value)
    if isinstance(body, dict) and isinstance(body.get("layers"), list):
        return GraphFile(GraphForm.LAYERS, str(path), value)
    in_bytes = "ops" in value or ("tensors" in value and "operators" not in value)
    return GraphFile(GraphForm.BYTES, str(path), value) if in_bytes else None
