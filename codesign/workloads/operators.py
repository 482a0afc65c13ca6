"""The named operators as computations: convolution, products of matrices and tensors.

Dimensions and tensors carry the names that Timeloop's problem shapes use (N, K, C, P, Q, R, S;
M, N, K; Inputs, Weights, Outputs), because the mappings and constraints of other tools name them so.
P and R run along the height, Q and S along the width of an image.
"""

import itertools
import math
from typing import TypeAlias, TypedDict, Unpack

from codesign.core.checks import check_whole
from codesign.core.errors import UserError
from codesign.workloads.computation import Computation, Role

Pair = int | tuple[int, int]

_SPATIAL = {1: (("P",), ("R",)), 2: (("P", "Q"), ("R", "S")), 3: (("D", "P", "Q"), ("T", "R", "S"))}
"""Names of the output axes and of the filter axes, by their number."""

_ROLES = {"Inputs": Role.INPUT, "Weights": Role.WEIGHT}


class Label(TypedDict, total=False):
    """Widths and name of an operator: ``bits`` (8), ``partial_bits`` (as `bits`), ``name``."""

    bits: int
    partial_bits: int | None
    name: str


def conv2d(
    *,
    K: int,
    C: int,
    P: int,
    Q: int,
    R: int = 1,
    S: int = 1,
    N: int = 1,
    G: int = 1,
    stride: Pair = 1,
    dilation: Pair = 1,
    **label: Unpack[Label],
) -> Computation:
    """A two-dimensional convolution, by its *output* size.

    The inputs span ``(P-1)*stride + (R-1)*dilation + 1`` rows (and the same of columns): positions
    that fall into the padding are indexed like all others, as Timeloop does.

    Args:
        K: Output channels of the whole layer.
        C: Input channels of the whole layer.
        P: Output height.
        Q: Output width.
        R: Filter height.
        S: Filter width.
        N: Batch.
        G: Groups; divides K and C. With ``1 < G < C`` or a channel multiplier the computation has a dimension
            G and *per-group* K and C; depthwise (G = C = K) has the one channel dimension C.
        stride: Of height and width.
        dilation: Of height and width.
        label: Width of an element and of a partial sum, and a name for people.

    Raises:
        UserError: A size below 1, or G does not divide K and C.

    >>> layer = conv2d(K=64, C=64, P=56, Q=56, R=3, S=3, stride=2)
    >>> str(layer)
    'Outputs[N,K,P,Q] += Inputs[N,C,2*P+R,2*Q+S] * Weights[K,C,R,S]'
    """
    where = label.get("name") or "conv"
    return conv_nd(
        K=K,
        C=C,
        output=(P, Q),
        kernel=(R, S),
        N=N,
        G=G,
        stride=_pair(stride, "stride", where),
        dilation=_pair(dilation, "dilation", where),
        **label,
    )


def conv_nd(
    *,
    K: int,
    C: int,
    output: tuple[int, ...],
    kernel: tuple[int, ...],
    N: int = 1,
    G: int = 1,
    stride: tuple[int, ...] | None = None,
    dilation: tuple[int, ...] | None = None,
    **label: Unpack[Label],
) -> Computation:
    """A convolution over one, two or three axes.

    Args:
        K: Output channels of the whole layer.
        C: Input channels of the whole layer.
        output: Length of the output axes: (P), (P, Q), or (D, P, Q) with a depth.
        kernel: Taps along them: (R), (R, S) or (T, R, S).
        N: Batch.
        G: Groups, as in `conv2d`.
        stride: Of each axis; default 1.
        dilation: Of each axis; default 1.
        label: Widths and name.

    Raises:
        UserError: A size below 1, axes that do not agree in number, or G does not divide K and C.
    """
    where = label.get("name") or "conv"
    rank = len(output)
    strides, dilations = _steps(where, "output", output, kernel, stride, dilation)
    _check_groups(where, K, C, G)
    outs, taps = _SPATIAL[rank]
    for s, d in zip(strides, dilations, strict=True):
        check_whole(stride=s, dilation=d, where=where)
    window = ",".join(f"{_term(strides[i], outs[i])}+{_term(dilations[i], taps[i])}" for i in range(rank))
    out, tap = ",".join(outs), ",".join(taps)
    bounds = {"N": N, "K": K // G, "C": C // G} | dict(zip(outs, output, strict=True))
    bounds |= dict(zip(taps, kernel, strict=True))
    if G == 1:
        notation = f"Outputs[N,K,{out}] += Inputs[N,C,{window}] * Weights[K,C,{tap}]"
    elif G == K == C:
        notation = f"Outputs[N,C,{out}] += Inputs[N,C,{window}] * Weights[C,{tap}]"
        del bounds["K"]
        bounds["C"] = G
    else:
        notation = f"Outputs[N,G,K,{out}] += Inputs[N,G,C,{window}] * Weights[G,K,C,{tap}]"
        bounds["G"] = G
    return _make(notation, bounds, label)


_PHASE_DIMS = {1: ("A",), 2: ("A", "B"), 3: ("X", "A", "B")}
"""Names of the dimensions that count the phases of a transposed convolution, by the number of its axes."""


def phase_taps(kernel: int, stride: int, dilation: int = 1) -> tuple[tuple[int, int], ...]:
    """How the taps of one axis of a transposed convolution spread over its phases, as (phases, taps of each).

    Tap r of an input lands on phase ``(dilation * r) mod stride``, so ``stride / gcd(stride, dilation)`` phases take the taps in
    turn. A phase without a tap has only the bias and is not listed.

    >>> phase_taps(4, 2), phase_taps(3, 2), phase_taps(2, 3)
    (((2, 2),), ((1, 2), (1, 1)), ((2, 1),))
    """
    reached = stride // math.gcd(stride, dilation)
    each, more = divmod(kernel, reached)
    groups = ((more, each + 1), (reached - more, each))
    return tuple((phases, taps) for phases, taps in groups if phases and taps)


Sizes: TypeAlias = tuple[int, ...]


def _steps(
    where: str, axes: str, lengths: Sizes, kernel: Sizes, stride: Sizes | None, dilation: Sizes | None
) -> tuple[Sizes, Sizes]:
    """Strides and dilations of every axis, 1 where nothing is given; refuses axes that do not agree in number."""
    rank = len(lengths)
    strides, dilations = stride or (1,) * rank, dilation or (1,) * rank
    if rank not in _SPATIAL or not len(kernel) == len(strides) == len(dilations) == rank:
        raise UserError(
            f"expected 1 to 3 {axes} axes and as many taps, strides and dilations, got {lengths}, {kernel}, {strides}, {dilations}",
            where=where,
        )
    return strides, dilations


def transposed_conv(
    *,
    K: int,
    C: int,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    N: int = 1,
    G: int = 1,
    stride: tuple[int, ...] | None = None,
    dilation: tuple[int, ...] | None = None,
    **label: Unpack[Label],
) -> tuple[Computation, ...]:
    """A transposed convolution as the ordinary convolutions it consists of (rule W2).

    Output pixel ``stride * p + a`` belongs to phase a, which sees the taps of that phase alone. Phases with equally many taps are
    one computation, with a dimension (A along the height, B along the width) that counts them; so there is one where the stride
    divides the filter, else up to two for each axis. Every input meets every tap once: the MACs of all computations together are
    ``N * K * C / G`` times the inputs and the taps of every axis, and no inserted zero is multiplied.

    Args:
        K: Output channels of the whole layer.
        C: Input channels of the whole layer.
        size: Length of the *input* axes: (P), (P, Q), or (D, P, Q) with a depth.
        kernel: Taps along them.
        N: Batch.
        G: Groups; above 1 the computations have a dimension G and per-group K and C.
        stride: Of each axis; default 1.
        dilation: Of each axis; default 1.
        label: Widths and name.

    Raises:
        UserError: A size below 1, axes that do not agree in number, or G does not divide K and C.
    """
    where = label.get("name") or "transposed conv"
    rank = len(size)
    strides, dilations = _steps(where, "input", size, kernel, stride, dilation)
    _check_groups(where, K, C, G)
    for n, r, s, d in zip(size, kernel, strides, dilations, strict=True):
        check_whole(size=n, kernel=r, stride=s, dilation=d, where=where)
    outs, taps = _SPATIAL[rank]
    phases = _PHASE_DIMS[rank]
    steps = [d // math.gcd(s, d) for s, d in zip(strides, dilations, strict=True)]
    window = ",".join(f"{outs[i]}+{_term(steps[i], taps[i])}" for i in range(rank))
    out = ",".join(f"{phase},{dim}" for phase, dim in zip(phases, outs, strict=True))
    group = "G," if G > 1 else ""
    notation = (
        f"Outputs[N,{group}K,{out}] += Inputs[N,{group}C,{window}] * "
        f"Weights[{group}K,C,{','.join(phases)},{','.join(taps)}]"
    )
    fixed = {"N": N, "K": K // G, "C": C // G} | ({"G": G} if G > 1 else {}) | dict(zip(outs, size, strict=True))
    found = []
    for chosen in itertools.product(*(phase_taps(*axis) for axis in zip(kernel, strides, dilations, strict=True))):
        counts = {dim: n for dim, (n, _) in zip(phases, chosen, strict=True)}
        lengths = {dim: n for dim, (_, n) in zip(taps, chosen, strict=True)}
        found.append(_make(notation, fixed | counts | lengths, label))
    return tuple(found)


def gemm(*, M: int, N: int, K: int, **label: Unpack[Label]) -> Computation:
    """Product of an M x K matrix of inputs and a K x N matrix of weights."""
    notation = "Outputs[M,N] += Inputs[M,K] * Weights[K,N]"
    return _make(notation, {"M": M, "N": N, "K": K}, label)


def gemv(*, M: int, K: int, **label: Unpack[Label]) -> Computation:
    """Product of an M x K matrix of weights and a vector of K inputs."""
    return _make("Outputs[M] += Inputs[K] * Weights[M,K]", {"M": M, "K": K}, label)


def batched_matmul(*, B: int, M: int, N: int, K: int, **label: Unpack[Label]) -> Computation:
    """B independent products of an M x K and a K x N matrix."""
    notation = "Outputs[B,M,N] += Inputs[B,M,K] * Weights[B,K,N]"
    return _make(notation, {"B": B, "M": M, "N": N, "K": K}, label)


def broadcast_matmul(
    *,
    M: int,
    N: int,
    K: int,
    shared: int = 1,
    input_only: int = 1,
    weight_only: int = 1,
    **label: Unpack[Label],
) -> Computation:
    """A matrix product whose batch axes are broadcast between its operands, with the fewest dimensions that say so.

    Args:
        M: Rows of the first operand.
        N: Columns of the second.
        K: The summed dimension.
        shared: Product of the batch axes both operands have (dimension B).
        input_only: Product of the batch axes of the first operand alone (dimension A; with ``shared == 1`` they are rows of M).
        weight_only: Product of the batch axes of the second operand alone (dimension E).
        label: Widths and name.
    """
    if shared == 1:
        M, input_only = M * input_only, 1
    batch = {"B": shared, "A": input_only, "E": weight_only}
    kept = [d for d in "BAE" if batch[d] > 1]
    of_input = [d for d in kept if d != "E"]
    of_weight = [d for d in kept if d != "A"]
    notation = (
        f"Outputs[{','.join([*kept, 'M', 'N'])}] += "
        f"Inputs[{','.join([*of_input, 'M', 'K'])}] * Weights[{','.join([*of_weight, 'K', 'N'])}]"
    )
    bounds = {d: batch[d] for d in kept} | {"M": M, "N": N, "K": K}
    return _make(notation, bounds, label)


def dot(*, K: int, **label: Unpack[Label]) -> Computation:
    """Inner product of two vectors of K elements; the output is one scalar."""
    return _make("Outputs[] += Inputs[K] * Weights[K]", {"K": K}, label)


def ttm(*, M: int, N: int, K: int, L: int, **label: Unpack[Label]) -> Computation:
    """Tensor times matrix, ``C[m,n,k] = sum_l A[m,n,l] B[l,k]``."""
    notation = "Outputs[M,N,K] += Inputs[M,N,L] * Weights[L,K]"
    return _make(notation, {"M": M, "N": N, "K": K, "L": L}, label)


def mttkrp(*, M: int, N: int, K: int, L: int, **label: Unpack[Label]) -> Computation:
    """Matricised tensor times Khatri-Rao product, ``D[m,n] = sum_kl A[m,k,l] B[k,n] C[l,n]``: three inputs."""
    return Computation.parse(
        "Outputs[M,N] += Inputs[M,K,L] * WeightsB[K,N] * WeightsC[L,N]",
        {"M": M, "N": N, "K": K, "L": L},
        **label,
        roles={"Inputs": Role.INPUT, "WeightsB": Role.WEIGHT, "WeightsC": Role.WEIGHT},
    )


def _make(notation: str, bounds: dict[str, int], label: Label) -> Computation:
    return Computation.parse(notation, bounds, roles=_ROLES, **label)


def _term(coefficient: int, dim: str) -> str:
    return dim if coefficient == 1 else f"{coefficient}*{dim}"


def _pair(value: Pair, field: str, where: str) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else value
    if len(pair) != 2:
        raise UserError(f"`{field}` must be one number or two (height, width), got {value!r}", where=where)
    for steps in pair:
        check_whole(where=where, **{field: steps})
    return pair


def _check_groups(where: str, K: int, C: int, G: int) -> None:
    check_whole(K=K, C=C, G=G, where=where)
    if K % G or C % G:
        field, value = ("K", K) if K % G else ("C", C)
        raise UserError(f"`G` must divide {field}, got G={G} and {field}={value}", where=where)
