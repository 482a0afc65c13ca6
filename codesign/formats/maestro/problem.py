"""Layers of MAESTRO's files. Y and X are input sizes; no padding is added."""

from codesign.core.errors import UserError, unknown_name
from codesign.formats.maestro.syntax import Layer
from codesign.workloads.computation import Computation
from codesign.workloads.operators import conv2d


def computation_from_maestro(layer: Layer, where: str = "layer") -> Computation:
    """The convolution of a layer of type CONV or DSCONV (depthwise).

    Raises:
        UserError: Another type, a missing or unknown dimension.
    """
    place = f"{where}: layer {layer.name!r}"
    if layer.kind not in ("CONV", "DSCONV"):
        raise unknown_name("layer type", layer.kind, ["CONV", "DSCONV"], where=place)
    depthwise = layer.kind == "DSCONV"
    sizes = dict(layer.dimensions)
    for dim in sizes:
        if dim not in ("N", "K", "C", "R", "S", "Y", "X"):
            raise unknown_name("dimension", dim, ["N", "K", "C", "R", "S", "Y", "X"], where=place)
    for dim in ("C", "R", "S", "Y", "X") if depthwise else ("K", "C", "R", "S", "Y", "X"):
        if dim not in sizes:
            raise UserError(f"`Dimensions` lacks {dim}", where=place)
    stride = (layer.stride.get("Y", 1), layer.stride.get("X", 1))
    extents = []
    for outer, tap, step in (("Y", "R", stride[0]), ("X", "S", stride[1])):
        if step < 1 or sizes[outer] < sizes[tap]:
            raise UserError(
                f"{outer} = {sizes[outer]} must be at least {tap} = {sizes[tap]}, and the stride >= 1", where=place
            )
        extents.append((sizes[outer] - sizes[tap]) // step + 1)
    channels = sizes["C"]
    return conv2d(
        K=channels if depthwise else sizes["K"],
        C=channels,
        G=channels if depthwise else 1,
        P=extents[0],
        Q=extents[1],
        R=sizes["R"],
        S=sizes["S"],
        N=sizes.get("N", 1),
        stride=stride,
        name=layer.name,
    )
