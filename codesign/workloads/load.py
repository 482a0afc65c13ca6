"""One door for every way to name a network: the zoo, an ONNX file, the project's own JSON or YAML."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from codesign.core.errors import UserError, closest
from codesign.core.files import read_structured
from codesign.core.plugins import entry_points
from codesign.workloads.fuse import fuse as fuse_network
from codesign.workloads.network import Network
from codesign.workloads.network_json import network_from_json
from codesign.workloads.zoo import ZOO, build_model, is_zoo_name, normalized

_log = logging.getLogger(__name__)

GROUP = "codesign.readers"
"""Entry points of this group read networks of other suffixes: ``suffix = module:function``, a `NetworkReader`."""

_STRUCTURED = (".json", ".yaml", ".yml")


def load_network(
    name_or_path: str | Path,
    *,
    batch: int | None = None,
    seq: int | None = None,
    past: int | None = None,
    phase: str | None = None,
    bits: int = 8,
    partial_bits: int | None = None,
    dims: Mapping[str, int] | None = None,
    precision: str | None = None,
    fuse: bool = True,
) -> Network:
    """A network of the zoo by name, or from a file.

    Args:
        name_or_path: A name of the zoo (``resnet50``, ``MobileNet-v2``), or a path that ends in ``.onnx``, ``.json``,
            ``.yaml``.
        batch: Inferences that run together; default: what a file says, else 1.
        seq: Sequence length: of a zoo model that has one, or of the symbolic sequence axes of an ONNX file.
        past: Tokens in the cache, of a zoo model that has phases.
        phase: ``prefill`` or ``decode``, for zoo models that have phases.
        bits: Width of every element of memory.
        partial_bits: Width of partial sums; default `bits`.
        dims: Values of symbolic dimensions of an ONNX file, by name.
        precision: Widths by kind of tensor, such as ``W4A8``, ``W4A16KV8`` or ``W4A8,lm_head*=W8A16``; they count above `bits`.
        fuse: Whether normalisation is folded and cheap functions are fused into their producers (rules W3 to W5).

    Raises:
        UserError: An unknown name (the nearest is offered), a file that cannot be used, an option that does not apply.

    >>> load_network("resnet50").macs
    4089184256
    """
    text = str(name_or_path)
    network = _read(text, batch, seq, past, phase, bits, partial_bits, dims)
    if fuse:
        try:
            network = fuse_network(network)
        except UserError as error:  # shapes of a file that contradict each other only once operators are joined
            raise error.within(text) from None
    if precision is None:
        return network
    from codesign.workloads.precision import Precision, with_precision

    return with_precision(network, Precision.parse(precision))


def _read(
    text: str,
    batch: int | None,
    seq: int | None,
    past: int | None,
    phase: str | None,
    bits: int,
    partial_bits: int | None,
    dims: Mapping[str, int] | None,
) -> Network:
    """The network as it stands in the zoo or a file, nothing fused."""
    suffix = Path(text).suffix.lower()
    if suffix == ".onnx":
        for option, given in (("phase", phase), ("past", past)):
            if given is not None:
                raise UserError(
                    f"`{option}` applies to zoo networks, not to an ONNX file",
                    where=text,
                    hint="its free axes have names: --dims seq=1 past=1024",
                )
        from codesign.workloads.onnx.reader import load_onnx

        return load_onnx(text, batch=batch, seq=seq, dims=dims, bits=bits, partial_bits=partial_bits)
    if suffix in _STRUCTURED:
        for field, value in (("seq", seq), ("past", past), ("phase", phase), ("dims", dims or None)):
            if value is not None:
                raise UserError(f"`{field}` does not apply to a network file with fixed shapes", where=text)
        network = network_from_json(read_structured(text), where=text).with_bits(bits, partial_bits)
        network = network if batch is None else network.with_batch(batch)
        for warning in network.warnings:
            _log.warning("%s: %s", text, warning)
        return network
    if is_zoo_name(text):
        if dims:
            raise UserError("`dims` applies to ONNX files, not to a zoo network", where=text)
        size = 1 if batch is None else batch
        return build_model(text, batch=size, seq=seq, past=past, phase=phase, bits=bits, partial_bits=partial_bits)
    if (reader := _registered_reader(suffix)) is not None:
        return reader(text, batch=batch, seq=seq, phase=phase, dims=dims, bits=bits, partial_bits=partial_bits)
    raise _unknown(text)


class NetworkReader(Protocol):
    """Reads networks from files of one suffix; other packages register theirs under `GROUP`."""

    def __call__(
        self,
        path: str,
        *,
        batch: int | None,
        seq: int | None,
        phase: str | None,
        dims: Mapping[str, int] | None,
        bits: int,
        partial_bits: int | None,
    ) -> Network:
        """The network of a file.

        Raises:
            UserError: The file cannot be used, or an option does not apply to it.
        """


def _registered_reader(suffix: str) -> NetworkReader | None:
    for point in entry_points(GROUP):
        if suffix == f".{point.name}":
            found: NetworkReader = point.load()
            return found
    return None


def _unknown(text: str) -> UserError:
    near = closest(normalized(text), [normalized(n) for n in ZOO])
    hint = next((f"did you mean {n!r}? " for n in ZOO if normalized(n) == near), "")
    if Path(text).exists():
        hint = "a file must end in .onnx, .json or .yaml. "
    return UserError(
        f"unknown network {text!r}",
        hint=f"{hint}known: {', '.join(sorted(ZOO))}; or a file ending in .onnx, .json or .yaml",
    )
