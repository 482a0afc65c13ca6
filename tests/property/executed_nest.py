"""Small nests run on numbers, and cycles of ports from the walk's counts: what the kernel and the laws of zeros are compared with."""

import itertools
import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from codesign.arch.architecture import Architecture, Ports
from codesign.core.errors import UserError
from codesign.cost.arrays import Reuse
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation
from experiments.attacks.interpreter import Instance, Walk, Words, interpret


def interpret_ports(
    computation: Computation, architecture: Architecture, mapping: Mapping, reuse: Reuse = Reuse.TIMELOOP
) -> dict[str, Fraction]:
    """Cycles in which the busiest port of an instance of each level is busy, by level name, not rounded up (rules L2 and L4).

    Args:
        computation: Small, as for `interpret`.
        architecture: The hardware.
        mapping: A nest for the two.
        reuse: The switch of the kernel.

    Raises:
        UserError: The mapping is malformed.
    """
    counts = interpret(computation, architecture, mapping, reuse)
    walk = Walk(computation, architecture, mapping)
    result: dict[str, Fraction] = {}
    for v, level in enumerate(architecture.levels):
        read, written = Fraction(0), Fraction(0)
        for tensor in computation.tensors:
            if (level.name, tensor.name) not in counts:
                continue
            bits = level.element_bits(tensor.bits if v == 0 else tensor.partial_bits)
            words = Fraction(bits, level.word_bits * math.prod(x.factor for x in walk.spatial_outside(v)))
            count = counts[level.name, tensor.name]
            read += words * count.reads
            written += words * (count.fills + count.updates)
        sides = zip((read, written), level.words_per_cycle, strict=True)
        busy = [words / Fraction(rate) for words, rate in sides if rate is not None]
        result[level.name] = sum(busy, Fraction(0)) if level.ports is Ports.SHARED else max(busy, default=Fraction(0))
    return result


def execute(
    computation: Computation,
    architecture: Architecture,
    mapping: Mapping,
    operands: dict[str, npt.NDArray[np.float64]],
) -> npt.NDArray[np.float64]:
    """Run a mapping on numbers: data moves through every buffer, MACs read only what their innermost buffers hold.

    Args:
        computation: Small.
        architecture: The hardware.
        mapping: A nest for the two.
        operands: Input arrays by name, of the extents the computation touches.

    Returns:
        The output array.

    Raises:
        UserError: The mapping is malformed, or a MAC reads a word its buffer does not hold.
    """
    walk = Walk(computation, architecture, mapping)
    output = computation.output
    shape = output.shape(computation.sizes)
    result = np.zeros(shape)
    temporal = [x for x in walk.loops if x.level < 0]
    spatial = [x for x in walk.loops if x.level >= 0]
    innermost = {t.name: walk.chain(t)[-1] for t in computation.tensors}
    for steps in itertools.product(*(range(x.factor) for x in temporal)):
        at = {loop.depth: k for loop, k in zip(temporal, steps, strict=True)}
        held: dict[tuple[str, Instance], Words] = {}
        for places in itertools.product(*(range(x.factor) for x in spatial)):
            where = {loop.depth: k for loop, k in zip(spatial, places, strict=True)}
            index = walk.base(at, where)
            product = 1.0
            for tensor in computation.tensors:
                level = innermost[tensor.name]
                word = tuple(sum(c * index[d] for d, c in axis.terms) for axis in tensor.axes)
                outside = walk.spatial_outside(level)
                instance = tuple(where[x.depth] for x in outside)
                if (tensor.name, instance) not in held:
                    depth = walk.position[level, tensor.name]
                    inner = {x.depth: k for x, k in zip(outside, instance, strict=True)}
                    outer = {d: k for d, k in at.items() if d < depth}
                    held[tensor.name, instance] = walk.tile(tensor, depth, walk.base(outer, inner))[1]
                if word not in held[tensor.name, instance]:
                    raise UserError(f"a MAC needs {tensor.name}{list(word)}, which its buffer does not hold")
                if tensor.is_output:
                    result[word] += product
                else:
                    product *= float(operands[tensor.name][word])
    return result


def reference_result(computation: Computation, operands: dict[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """The computation by `numpy.einsum` on strided views: what `execute` must equal."""
    letters = {d: chr(ord("a") + i) for i, d in enumerate(computation.dims)}
    views, subscripts = [], []
    for tensor in computation.inputs:
        array = np.ascontiguousarray(operands[tensor.name])
        shape, strides, names = [], [], ""
        for axis, stride in zip(tensor.axes, array.strides, strict=True):
            for dim, coefficient in axis.terms:
                shape.append(computation.sizes[dim])
                strides.append(stride * coefficient)
                names += letters[dim]
        views.append(np.lib.stride_tricks.as_strided(array, shape, strides))
        subscripts.append(names)
    target = "".join(letters[axis.terms[0][0]] for axis in computation.output.axes)
    present = "".join(subscripts)
    missing = [d for d in computation.dims if letters[d] not in present]
    scale = math.prod(computation.sizes[d] for d in missing if letters[d] not in target)
    for d in missing:
        if letters[d] in target:  # a dimension of the output alone repeats the value
            views.append(np.ones(computation.sizes[d]))
            subscripts.append(letters[d])
    return np.asarray(np.einsum(f"{','.join(subscripts)}->{target}", *views) * scale)
