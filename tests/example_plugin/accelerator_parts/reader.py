"""Networks from text files with one fully connected layer a line: ``inputs outputs``."""

from collections.abc import Mapping

from codesign.core.errors import UserError
from codesign.core.files import read_text
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network


def read_layers(
    path: str,
    *,
    batch: int | None,
    seq: int | None,
    phase: str | None,
    dims: Mapping[str, int] | None,
    bits: int,
    partial_bits: int | None,
) -> Network:
    """See `codesign.workloads.load.NetworkReader`."""
    for name, value in (("seq", seq), ("phase", phase), ("dims", dims or None)):
        if value is not None:
            raise UserError(f"`{name}` does not apply to a list of layers", where=path)
    sizes = [tuple(int(n) for n in line.split()) for line in read_text(path).splitlines() if line.strip()]
    net = NetworkBuilder("layers", batch=batch or 1, bits=bits, partial_bits=partial_bits)
    value = net.input("x", (net.batch, sizes[0][0]))
    for number, (_, outputs) in enumerate(sizes):
        value = net.linear(value, outputs, name=f"layer{number}")
    return net.build(value)
