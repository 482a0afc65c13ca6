"""`codesign density`: run a network on samples and record where its tensors have zeros."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.options import OutputFormat
from codesign.core.errors import UserError

if TYPE_CHECKING:
    import numpy.typing as npt


def density_command(
    network: Annotated[Path, typer.Option(help="ONNX file, weights included.")],
    data: Annotated[Path, typer.Option(help="Samples (.npz): an array an input, samples along its first axis.")],
    out: Annotated[Path | None, typer.Option(help="Write the file that --zeros takes.")] = None,
    masks: Annotated[
        bool, typer.Option("--masks", help="Also write where zeros are, of the weights and the first sample.")
    ] = False,
    dims: Annotated[str | None, typer.Option(help="Lengths of free axes: --dims seq=128.")] = None,
    output_format: OutputFormat = "text",
) -> None:
    """Run a network under ONNX Runtime and record the share of non-zeros of every tensor of its matrix operators.

    For example:

    codesign density --network model.onnx --data samples.npz --out zeros.json --masks

    codesign evaluate --network model.onnx --arch arch.yaml --mappings runs/mapped/mappings --zeros zeros.json
    """
    from codesign.cli.inputs import parse_dims
    from codesign.workloads.load import load_network
    from codesign.workloads.onnx.observed import observe
    from codesign.workloads.zero_file import write_zeros

    if masks and out is None:
        raise UserError("--masks are files beside --out", hint="give --out zeros.json")
    if network.suffix.lower() != ".onnx":
        raise UserError(f"--network must be an ONNX file with its weights, got {str(network)!r}")
    loaded = load_network(network, batch=1, dims=parse_dims(dims))
    samples = _samples(data)
    seen = observe(network, loaded, samples, masks)
    count = len(next(iter(samples.values())))
    if out is not None:
        write_zeros(out, loaded.name, count, seen)
    if output_format == "json":
        rows = [{k: getattr(s, k) for k in ("operator", "kind", "tensor", "density", "least", "most")} for s in seen]
        echo_json({"network": loaded.name, "samples": count, "operands": rows}, indent=1)
        return
    typer.echo(f"{loaded.name}: {count} samples")
    for s in seen:
        spread = "" if s.kind == "weight" else f"  ({s.least:.1%} to {s.most:.1%} by sample)"
        typer.echo(f"{s.operator:24} {s.kind:7} {s.tensor:32} {s.density:7.2%} non-zero{spread}")
    if out is not None:
        typer.echo(f"written to {out}")


def _samples(path: Path) -> "dict[str, npt.NDArray[Any]]":
    """The arrays of a file.

    Raises:
        UserError: It cannot be read, or holds none.
    """
    import numpy as np

    try:
        loaded = np.load(path)
        arrays = {"": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise UserError("no such file", where=str(path)) from None
    except (OSError, ValueError) as error:
        raise UserError(f"the samples cannot be read: {error}", where=str(path)) from None
    if not arrays:
        raise UserError("the file holds no array", where=str(path))
    return arrays
