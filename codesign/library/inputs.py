"""Plain inputs made into values: a name, a path or a notation where a value is wanted."""

from pathlib import Path

from codesign.arch.architecture import Architecture
from codesign.arch.presets import load_preset
from codesign.core.checks import check_positive
from codesign.core.errors import UserError
from codesign.formats.load import Hardware, load_hardware, load_inputs
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation
from codesign.workloads.layer_string import parse_layer
from codesign.workloads.load import load_network
from codesign.workloads.network import Network


def load_architecture(
    name_or_path: str | Path, *more: str | Path, technology: str | None = None, clock_hz: float | None = None
) -> Architecture:
    """An accelerator by the name of a preset, or from files.

    Args:
        name_or_path: A preset (``eyeriss``, ``simba``, ``gemmini``, ``tpu``, ``soma-edge``, ``soma-cloud``), or a file: the
            project's own form, Timeloop's or ZigZag's.
        more: Further files, e.g. an energy reference table.
        technology: Fills in energies and areas that are left open.
        clock_hz: Overrides the clock.

    Returns:
        The architecture, energies filled in as far as a technology or a table gives them.

    Raises:
        UserError: An unknown preset (the nearest is offered), or a file that cannot be used.

    >>> load_architecture("eyeriss").mac_units
    168
    """
    return read_hardware(name_or_path, *more, technology=technology, clock_hz=clock_hz)[1]


def read_hardware(
    name_or_path: str | Path, *more: str | Path, technology: str | None = None, clock_hz: float | None = None
) -> tuple[Hardware, Architecture]:
    """The architecture, and what its files say of mappings; see `load_architecture`.

    Raises:
        UserError: As there, or no file describes an architecture.
    """
    check_positive(clock_hz=clock_hz)
    preset = None if _is_path(name_or_path) else load_preset(str(name_or_path), technology)
    paths = [str(p) for p in ((name_or_path, *more) if preset is None else more)]
    found = load_hardware(
        paths, architecture=preset, clock_hz=clock_hz, technology=technology if preset is None else None
    )
    if found.architecture is None:
        raise UserError("no file describes an architecture", where=", ".join(paths))
    return found, found.architecture


def as_hardware(value: "Architecture | str | Path") -> tuple[Hardware | None, Architecture]:
    """An architecture that is given as a value, a preset or a file; with what the file says of mappings."""
    if isinstance(value, Architecture):
        return None, value
    return read_hardware(value)


def as_computation(value: "Computation | str | Path") -> Computation:
    """A layer that is given as a value, a text such as ``gemm M=64 N=64 K=64`` or a problem file.

    Raises:
        UserError: It is none of them.
    """
    if isinstance(value, Computation):
        return value
    if isinstance(value, Path) or ("=" not in value and _is_path(value)):
        return load_inputs([value]).need_computation()
    return parse_layer(value)


def load_layer(layer: "Computation | str | Path", *, precision: str | None = None) -> Computation:
    """One layer, perhaps at another precision.

    Args:
        layer: A computation, a text such as ``conv K=64 C=64 P=56 Q=56 R=3 S=3``, or a problem file.
        precision: Widths of weights and activations, such as ``W4A8`` or ``mxfp4``; None for the layer's own.

    Raises:
        UserError: It is no layer, or the precision says nothing that is known of one.

    >>> tuple(t.bits for t in load_layer("gemm M=4 N=4 K=4", precision="W4A8").inputs)
    (8, 4)
    """
    found = as_computation(layer)
    return found if precision is None else narrowed_layer(found, precision)


def narrowed_layer(computation: Computation, precision: str) -> Computation:
    """A layer at the widths of a precision.

    Raises:
        UserError: The precision says nothing that is known, or speaks of a cache or of layers.
    """
    from codesign.workloads.precision import Precision, narrowed

    wanted = Precision.parse(precision)
    if wanted.layers:
        raise UserError("--precision with layers is of --network", hint="give one precision")
    if wanted.cache not in (None, wanted.activations):
        raise UserError("--precision: one layer has no cache", hint="leave out KV, or give --network")
    return narrowed(computation, wanted)


def as_network(value: "Network | str | Path", architecture: Architecture, *, batch: int | None = None) -> Network:
    """A network that is given as a value, a name of the zoo or a file, at the widths of the architecture's MACs."""
    if isinstance(value, Network):
        return value if batch is None else value.with_batch(batch)
    return load_network(value, batch=batch, bits=architecture.mac.bits)


def as_mapping(
    value: "Mapping | str | Path", computation: Computation, architecture: Architecture, imperfect: bool = False
) -> Mapping:
    """A mapping that is given as a value or a file.

    Args:
        value: The mapping.
        computation: The computation that the mapping is of.
        architecture: The hardware.
        imperfect: Whether its factors may multiply to more than the bounds.

    Raises:
        UserError: The file holds none, or one of something else.
    """
    if isinstance(value, Mapping):
        return value
    return load_inputs([value], architecture=architecture, computation=computation, imperfect=imperfect).need_mapping()


def is_layer(value: object) -> bool:
    """Whether an input is one layer rather than a network."""
    return isinstance(value, Computation) or (isinstance(value, str) and "=" in value)


def _is_path(value: str | Path) -> bool:
    return isinstance(value, Path) or Path(value).exists() or bool(Path(value).suffix) or "/" in value
