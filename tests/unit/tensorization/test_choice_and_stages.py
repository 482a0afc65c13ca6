import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.tensorization.choice import TensorizeChoice, choices
from codesign.tensorization.execute import affine_einsum, proves_equal, random_inputs, run_choice, scaled_down
from codesign.tensorization.intrinsics import intrinsic
from codesign.tensorization.stages import split_stages
from codesign.workloads.computation import Computation

RESNET = Computation.parse("C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", k=64, c=64, x=56, y=56, r=3, s=3)


def chosen(computation: Computation, unit: str, size: str, which: str) -> TensorizeChoice:
    return next(
        c for c in choices(computation, intrinsic(unit, size), partial=True, unsound=True) if str(c.match) == which
    )


def test_padding_of_the_papers_convolution_by_hand() -> None:
    good = chosen(RESNET, "gemm", "16x16x16", "i->k, j->x, k->c")
    assert good.calls == 4 * 4 * 56 * 4 * 3 * 3
    assert good.padded_dims == {"x": (56, 64)}
    assert good.padding_waste == pytest.approx(1 - 56 / 64)
    poor = chosen(RESNET, "gemm", "16x16x16", "i->k, j->x, k->s")
    assert poor.padded_dims == {"x": (56, 64), "s": (3, 16)}
    assert poor.padding_waste == pytest.approx(1 - 56 / 64 * 3 / 16)


def test_reuse_by_hand() -> None:
    reuse = {r.tensor: r for r in chosen(RESNET, "gemm", "16x16x16", "i->k, j->y, k->c").reuse}
    assert reuse["A"].words_per_call == 16 * 16
    assert reuse["A"].macs_per_word == 16
    assert reuse["A"].calls_per_tile == 4  # tiles of k
    assert reuse["B"].calls_per_tile == 56 * 4  # x and tiles of y
    assert reuse["C"].calls_per_tile == 4 * 3 * 3  # tiles of c, r, s
    assert (reuse["A"].contiguous_words, reuse["B"].contiguous_words, reuse["C"].contiguous_words) == (16, 1, 16)


def test_contiguous_run_spans_axes_taken_whole() -> None:
    small = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=32, j=8, k=16)
    reuse = {r.tensor: r.contiguous_words for r in chosen(small, "gemm", "16x8x16", "i->i, j->j, k->k").reuse}
    assert reuse == {"M": 16 * 16, "N": 16 * 8, "L": 16 * 8}


def test_unused_indices_of_the_intrinsic_count_as_waste() -> None:
    depthwise = Computation.parse("C[c,x,y] += A[c,x+r,y+s] * B[c,r,s]", c=4, x=8, y=8, r=3, s=3)
    choice = chosen(depthwise, "gemm", "8x8x4", "i->x, k->s")
    assert choice.calls == 4 * 8 * 3
    assert choice.executed_macs == choice.calls * 8 * 8 * 4
    assert choice.padding_waste == pytest.approx(1 - depthwise.macs / choice.executed_macs)


def test_choices_come_with_least_waste_first_and_unsound_ones_last() -> None:
    listed = choices(RESNET, intrinsic("gemm", "16x16x16"), unsound=True)
    assert len(listed) == 42
    assert [c.match.is_sound for c in listed] == [True] * 8 + [False] * 34
    assert [c.padding_waste for c in listed[:8]] == sorted(c.padding_waste for c in listed[:8])


def test_loop_nest_names_every_host_loop_and_the_call() -> None:
    text = chosen(RESNET, "gemm", "16x16x16", "i->k, j->x, k->c").loop_nest()
    assert [line.split()[1] for line in text.splitlines()[:-1]] == ["k_tile", "x_tile", "y", "c_tile", "r", "s"]
    assert text.splitlines()[-1].strip() == "C[(k:16),(x:16),y] += gemm(A[(c:16),(x:16)+r,y+s], B[(k:16),(c:16),r,s])"


def test_all_42_printed_choices_are_told_apart_by_running_them() -> None:
    listed = choices(RESNET, intrinsic("gemm", "16x16x16"), unsound=True)
    assert [proves_equal(c) for c in listed] == [True] * 8 + [False] * 34


def test_a_scaled_down_choice_keeps_the_match_and_a_ragged_tile() -> None:
    small = scaled_down(chosen(RESNET, "gemm", "16x16x16", "i->k, j->x, k->c"))
    assert small.intrinsic.computation.sizes == {"i": 2, "j": 2, "k": 2}
    assert small.computation.sizes == {"k": 5, "x": 5, "c": 5, "y": 2, "r": 2, "s": 2}


def test_padding_that_zeros_cannot_silence_is_refused() -> None:
    window = intrinsic("S[x] += P[x+k]", "4x4")
    pooling = Computation.parse("O[p] += I[p+r]", p=8, r=6)
    choice = choices(pooling, window)[0]
    assert choice.unmaskable == ("r",)
    with pytest.raises(UserError, match="must divide the bound of r"):
        run_choice(choice, random_inputs(pooling, 0))
    exact = choices(pooling.with_bounds(r=8), window)[0]
    inputs = random_inputs(exact.computation, 0)
    assert np.array_equal(run_choice(exact, inputs), affine_einsum(exact.computation, inputs))
    assert proves_equal(choice)


@pytest.mark.parametrize("missing", [{}, {"P": np.zeros(3)}])
def test_arrays_are_checked(missing: dict) -> None:
    with pytest.raises(UserError, match=r"no array given for tensor 'I'|must have shape"):
        affine_einsum(Computation.parse("O[p] += I[p+r]", p=8, r=6), missing | {"I": np.zeros(3)} if missing else {})


def test_einsum_of_strided_convolution_by_hand() -> None:
    strided = Computation.parse("O[p] += I[2*p+r] * W[r]", p=3, r=2)
    inputs = {"I": np.array([1, 2, 3, 4, 5, 6]), "W": np.array([10, 1])}
    assert affine_einsum(strided, inputs).tolist() == [12, 34, 56]


def test_einsum_adds_where_output_positions_meet() -> None:
    deconvolution = Computation.parse("O[x+r] += I[x] * W[r]", x=2, r=2)
    inputs = {"I": np.array([1, 2]), "W": np.array([10, 1])}
    assert affine_einsum(deconvolution, inputs).tolist() == [10, 21, 2]


def test_mttkrp_splits_into_the_papers_stages() -> None:
    mttkrp = Computation.parse("D[i,j] += A[i,k,l] * B[l,j] * C[k,j]", i=128, j=256, k=512, l=1024)
    stages = split_stages(mttkrp)
    assert [str(s) for s in stages] == ["E[i,k,j] += A[i,k,l] * B[l,j]", "D[i,j] += E[i,k,j] * C[k,j]"]
    assert [len(choices(s, intrinsic("gemm"))) for s in stages] == [4, 0]
    assert choices(mttkrp, intrinsic("gemm")) == ()


def test_the_smaller_intermediate_is_chosen() -> None:
    mttkrp = Computation.parse("D[i,j] += A[i,k,l] * B[l,j] * C[k,j]", i=8, j=8, k=64, l=8)
    assert str(split_stages(mttkrp)[0]) == "E[i,l,j] += A[i,k,l] * C[k,j]"


def test_two_operands_are_one_stage() -> None:
    assert split_stages(RESNET) == (RESNET,)


@pytest.mark.parametrize(
    "notation",
    [
        "D[i,j] += A[i,k,l] * B[l,j] * C[k,j]",
        "Y[a,d] += A[a,b] * B[b,c] * C[c,d] * Z[d,b]",
        "O[n,p] += X[n,c,p+r] * W[c,r] * S[n,c]",
    ],
)
def test_stages_run_one_after_the_other_give_the_whole(notation: str) -> None:
    bounds = {d: 3 + i % 3 for i, d in enumerate(sorted({c for c in notation if c.islower()}))}
    computation = Computation.parse(notation, bounds)
    arrays = random_inputs(computation, 1)
    stages = split_stages(computation)
    assert len(stages) == len(computation.inputs) - 1
    for stage in stages:
        arrays[stage.output.name] = affine_einsum(stage, {t.name: arrays[t.name] for t in stage.inputs})
    assert np.array_equal(arrays[computation.output.name], affine_einsum(computation, random_inputs(computation, 1)))


def test_an_operand_that_is_simply_one_is_one_only_where_it_is_used() -> None:
    column_sums = Computation.parse("O[a] += X[b,a]", a=3, b=2)
    inputs = random_inputs(column_sums, 0)
    found = choices(column_sums, intrinsic("conv2d", "1x2x1x1x2x1"), partial=True)
    assert any(o.tensor is None for c in found for o in c.match.operands)
    for choice in found:
        if not choice.unmaskable:
            assert np.array_equal(run_choice(choice, inputs), affine_einsum(column_sums, inputs)), choice.match


def test_an_unused_summed_index_that_zeros_cannot_silence_is_reported() -> None:
    window = intrinsic("S[x] += P[x+k]", "2x2")
    found = choices(Computation.parse("O[a] += X[a]", a=4), window, partial=True)
    assert [c.unmaskable for c in found] == [("k",)]


def test_an_index_of_the_output_alone_repeats_the_values() -> None:
    spread = Computation.parse("O[i,j] += A[i,k] * B[k]", i=3, j=2, k=3)
    inputs = random_inputs(spread, 0)
    expected = affine_einsum(spread, inputs)
    assert np.array_equal(expected, np.repeat((inputs["A"] @ inputs["B"])[:, None], 2, axis=1))
    found = choices(spread, intrinsic("gemv", "2x2"))
    assert [str(c.match) for c in found] == ["i->i, j->k"]
    assert np.array_equal(run_choice(found[0], inputs), expected)


@pytest.mark.parametrize(
    ("notation", "names"),
    [
        ("Y[a] += W[a,b] * X[b,c] * Z[c]", ["E1", "Y"]),
        ("out[a] += E1[a,b] * x2[b,c] * x3[c]", ["E1_", "out"]),
        ("D[a] += A[a,b] * B[b,c] * C[c,d] * F[d]", ["G", "H", "D"]),
    ],
)
def test_intermediates_get_names_that_are_free(notation: str, names: list[str]) -> None:
    dims = {d: 2 for d in "abcd" if f"{d}]" in notation or f"{d}," in notation}
    assert [s.output.name for s in split_stages(Computation.parse(notation, dims))] == names
