"""The same computation with fewer dimensions: those of one iteration dropped, those that always stand together made one.

Tensors are row-major, so two neighbouring axes that are indexed by one dimension each are one longer axis of the same data. A convolution with
1 x 1 filters and no stride becomes a matrix product over all its pixels, with nothing moved; its rows of pixels are then no longer padded one by one.
"""

from collections.abc import Sequence

from codesign.workloads.computation import AffineIndex, Computation, Tensor


def collapsed(computation: Computation) -> Computation:
    """The computation with as few dimensions as its data layout allows; itself if nothing can be merged or dropped.

    >>> plain = Computation.parse("C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", k=8, x=7, y=7, c=8, r=1, s=1)
    >>> str(collapsed(plain))
    'C[k,x_y] += A[c,x_y] * B[k,c]'
    """
    sizes = {dim: n for dim, n in computation.sizes.items() if n > 1}
    tensors = [(t, _without(t.axes, sizes)) for t in computation.tensors]
    while True:
        pair = next(((a, b) for a in sizes for b in sizes if a != b and _stand_together(tensors, a, b)), None)
        if pair is None:
            break
        name = "_".join(pair)
        while name in sizes:
            name += "_"
        tensors = [(t, _merged(axes, *pair, name)) for t, axes in tensors]
        count = sizes[pair[0]] * sizes[pair[1]]
        sizes = {
            (name if d == pair[0] else d): (count if d == pair[0] else n) for d, n in sizes.items() if d != pair[1]
        }
    if len(sizes) == len(computation.dims) or not all(axes for t, axes in tensors if not t.is_output):
        return computation
    return Computation(
        tuple(sizes),
        tuple(sizes.values()),
        tuple(Tensor(t.name, axes, t.role, t.bits, t.partial_bits) for t, axes in tensors),
        computation.name,
    )


Axes = tuple[AffineIndex, ...]


def _without(axes: Axes, kept: dict[str, int]) -> Axes:
    """Axes with only the terms of these dimensions; an axis without any is one element long and vanishes."""
    short = (tuple((d, c) for d, c in axis.terms if d in kept) for axis in axes)
    return tuple(AffineIndex(terms) for terms in short if terms)


def _stand_together(tensors: Sequence[tuple[Tensor, Axes]], first: str, second: str) -> bool:
    """Whether in every tensor the second's axis follows the first's, each indexed by that dimension alone, or neither occurs."""
    seen = False
    for _, axes in tensors:
        places = [[k for k, axis in enumerate(axes) if d in dict(axis.terms)] for d in (first, second)]
        if not places[0] and not places[1]:
            continue
        if len(places[0]) != 1 or len(places[1]) != 1 or places[1][0] != places[0][0] + 1:
            return False
        if axes[places[0][0]].terms != ((first, 1),) or axes[places[1][0]].terms != ((second, 1),):
            return False
        seen = True
    return seen


def _merged(axes: Axes, first: str, second: str, name: str) -> Axes:
    kept = (a for a in axes if a.terms != ((second, 1),))
    return tuple(AffineIndex(((name, 1),)) if a.terms == ((first, 1),) else a for a in kept)
