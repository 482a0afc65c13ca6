"""Splitting a product of three or more operands into stages of two, each of which an intrinsic may take.

``D[i,j] += A[i,k,l] * B[l,j] * C[k,j]`` (MTTKRP) becomes ``E[i,k,j] += A[i,k,l] * B[l,j]`` and
``D[i,j] += E[i,k,j] * C[k,j]`` (HASCO Sec. VII-B): a matrix-multiply unit takes nothing of the whole but most of the first stage.
"""

from collections.abc import Iterator

from codesign.workloads.computation import AffineIndex, Computation, Role, Tensor


def split_stages(computation: Computation) -> tuple[Computation, ...]:
    """The computation as a chain of two-operand stages; itself alone when it has at most two inputs.

    Of all orders of pairwise contraction the one with the fewest multiply-accumulates is taken, then the one with the
    smallest intermediate tensors, then the one nearest to the order written. An intermediate has one axis for each
    dimension that the rest of the computation still needs; all others are summed in the stage that makes it.

    >>> mttkrp = Computation.parse("D[i,j] += A[i,k,l] * B[l,j] * C[k,j]", i=8, j=8, k=8, l=8)
    >>> [str(stage) for stage in split_stages(mttkrp)]
    ['E[i,k,j] += A[i,k,l] * B[l,j]', 'D[i,j] += E[i,k,j] * C[k,j]']
    """
    if len(computation.inputs) <= 2:
        return (computation,)
    return min(_orders(computation, list(computation.inputs), []), key=_weight)


def _weight(stages: tuple[Computation, ...]) -> tuple[int, int]:
    return sum(s.macs for s in stages), sum(s.tensor_words(s.output) for s in stages[:-1])


def _orders(
    computation: Computation, operands: list[Tensor], done: list[Computation]
) -> Iterator[tuple[Computation, ...]]:
    """Every order of pairwise contraction, the one written first."""
    if len(operands) == 2:
        yield (*done, _stage(computation, operands[0], operands[1], computation.output, computation.name))
        return
    for b in range(1, len(operands)):
        for a in range(b):
            first, second = operands[a], operands[b]
            rest = [t for at, t in enumerate(operands) if at not in (a, b)]
            middle = _intermediate(computation, first, second, rest, len(done))
            stage = _stage(computation, first, second, middle, f"{computation.name or 'stage'} {len(done) + 1}")
            consumed = Tensor(middle.name, middle.axes, Role.INPUT, middle.bits, middle.bits)
            yield from _orders(computation, [consumed, *rest], [*done, stage])


def _intermediate(computation: Computation, a: Tensor, b: Tensor, rest: list[Tensor], number: int) -> Tensor:
    needed = computation.output.dims.union(*(t.dims for t in rest))
    order = dict.fromkeys(d for t in (a, b) for axis in t.axes for d, _ in axis.terms)
    axes = tuple(AffineIndex(((d, 1),)) for d in order if d in needed)
    bits, partial_bits = computation.output.bits, computation.output.partial_bits
    return Tensor(_free_name(computation, number), axes, Role.OUTPUT, bits, partial_bits)


def _free_name(computation: Computation, number: int) -> str:
    """The letters after the names in use, as in the papers (E for MTTKRP's A, B, C, D), else E1, E2, ..."""
    used = {t.name for t in computation.tensors}
    letters = [chr(c) for c in range(ord("A"), ord("Z") + 1)]
    if used <= set(letters):
        free = [c for c in letters if c > max(used)]
        if number < len(free):
            return free[number]
    name = f"E{number + 1}"
    while name in used:
        name += "_"
    return name


def _stage(computation: Computation, a: Tensor, b: Tensor, output: Tensor, name: str) -> Computation:
    in_stage = a.dims | b.dims | output.dims
    dims = tuple(d for d in _appearance((output, a, b)) if d in in_stage)
    return Computation(dims, tuple(computation.sizes[d] for d in dims), (a, b, output), name)


def _appearance(tensors: tuple[Tensor, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(d for t in tensors for axis in t.axes for d, _ in axis.terms))
