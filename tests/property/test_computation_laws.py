import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.workloads.computation import Computation


@st.composite
def computations(draw: st.DrawFn) -> Computation:
    names = "abcde"[: draw(st.integers(1, 5))]
    bounds = {d: draw(st.integers(1, 4)) for d in names}

    def axis() -> str:
        dims = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        return "+".join(d if (c := draw(st.integers(1, 3))) == 1 else f"{c}*{d}" for d in dims)

    operands = [
        f"T{i}[{','.join(axis() for _ in range(draw(st.integers(0, 3))))}]" for i in range(draw(st.integers(1, 3)))
    ]
    every = f"All[{','.join(names)}]"  # so that no dimension goes unused
    out = f"O[{','.join(draw(st.lists(st.sampled_from(names), max_size=4, unique=True)))}]"
    return Computation.parse(f"{out} += {' * '.join([*operands, every])}", bounds)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(computations())
def test_notation_round_trip(computation: Computation) -> None:
    assert Computation.parse(str(computation), computation.sizes) == computation


@settings(max_examples=60, deadline=None, derandomize=True)
@given(computations())
def test_extents_and_macs_agree_with_walking_every_iteration(computation: Computation) -> None:
    points = list(itertools.product(*(range(b) for b in computation.bounds)))
    assert computation.macs == len(points)
    for tensor in computation.tensors:
        index = np.array(
            [
                [sum(c * point[computation.dims.index(d)] for d, c in axis.terms) for axis in tensor.axes]
                for point in points
            ]
        ).reshape(len(points), -1)
        box = int(np.prod(index.max(axis=0) - index.min(axis=0) + 1)) if tensor.axes else 1
        assert computation.tensor_words(tensor) == box
