"""Every sound choice, run on numbers, equals einsum: on random computations, random intrinsics and ragged sizes."""

import numpy as np
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from codesign.tensorization.choice import choices
from codesign.tensorization.execute import affine_einsum, random_inputs, run_choice
from codesign.tensorization.intrinsics import Intrinsic, intrinsic
from codesign.tensorization.stages import split_stages
from codesign.workloads.computation import AffineIndex, Computation, Role, Tensor

LIMITS = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
SIZES = st.integers(1, 3)


@st.composite
def axes(draw: st.DrawFn, dims: list[str], sums: bool) -> tuple[AffineIndex, ...]:
    """Axes over all of `dims`, each dimension once; now and then two share an axis."""
    left = list(dims)
    found = []
    while left:
        terms = [(left.pop(), 1)]
        if sums and left and draw(st.integers(0, 3)) == 0:
            terms = [(terms[0][0], draw(st.integers(1, 2))), (left.pop(), draw(st.integers(1, 2)))]
        found.append(AffineIndex(tuple(terms)))
    return tuple(found)


@st.composite
def computations(draw: st.DrawFn, most_dims: int = 5, most_inputs: int = 3) -> Computation:
    """Products of one to three operands, every dimension in some operand, the output indexed by some of them."""
    names = list("abcdefg"[: draw(st.integers(1, most_dims))])
    inputs = []
    for number in range(draw(st.integers(1, most_inputs))):
        chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names)))
        inputs.append(Tensor("XYZ"[number], draw(axes(chosen, True)), Role.INPUT))
    used = [d for d in names if any(d in t.dims for t in inputs)]
    kept = draw(st.lists(st.sampled_from(used), unique=True)) if used else []
    if not used:
        inputs[0] = Tensor("X", (AffineIndex((("a", 1),)),), Role.INPUT)
        used = ["a"]
    output = Tensor("O", tuple(AffineIndex(((d, 1),)) for d in kept), Role.OUTPUT)
    return Computation(tuple(used), tuple(draw(st.integers(1, 5)) for _ in used), (*inputs, output))


@st.composite
def intrinsics(draw: st.DrawFn) -> Intrinsic:
    if draw(st.booleans()):
        computation = draw(computations(most_dims=3, most_inputs=2))
        return Intrinsic("drawn", computation.with_bounds(**{d: draw(SIZES) for d in computation.dims}))
    known = intrinsic(draw(st.sampled_from(["dot", "gemv", "gemm", "conv2d"])))
    return intrinsic(known.name, {d: draw(SIZES) for d in known.computation.dims})


@LIMITS
@given(computations(), intrinsics(), st.booleans())
def test_every_sound_choice_equals_einsum(computation: Computation, unit: Intrinsic, partial: bool) -> None:
    inputs = random_inputs(computation, 0)
    expected = affine_einsum(computation, inputs)
    found = choices(computation, unit, partial=partial)
    event("matches" if found else "no match")
    for choice in found[:12]:
        if not choice.unmaskable:
            assert np.array_equal(run_choice(choice, inputs), expected), str(choice.match)


@LIMITS
@given(computations(), intrinsics())
def test_padding_and_calls_are_consistent(computation: Computation, unit: Intrinsic) -> None:
    for choice in choices(computation, unit):
        assert choice.executed_macs == choice.padded.macs
        assert choice.executed_macs == choice.calls * unit.computation.macs
        assert 0 <= choice.padding_waste < 1
        for reuse in choice.reuse:
            assert reuse.contiguous_words <= reuse.words_per_call
            assert choice.calls % reuse.calls_per_tile == 0


@LIMITS
@given(computations(most_dims=4, most_inputs=3))
def test_stages_in_turn_equal_the_whole(computation: Computation) -> None:
    arrays = random_inputs(computation, 2)
    expected = affine_einsum(computation, arrays)
    for stage in split_stages(computation):
        assert len(stage.inputs) <= 2
        arrays[stage.output.name] = affine_einsum(stage, {t.name: arrays[t.name] for t in stage.inputs})
    assert np.array_equal(arrays["O"], expected)
