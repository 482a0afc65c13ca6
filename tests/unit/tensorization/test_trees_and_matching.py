import pytest

from codesign.core.errors import UserError
from codesign.tensorization.diagnosis import nearest_miss, no_match_error
from codesign.tensorization.intrinsics import intrinsic, parse_bounds
from codesign.tensorization.matching import Condition, partial_matches, printed_matches, sound_matches
from codesign.tensorization.trees import Operation, syntax_tree
from codesign.workloads.computation import Computation

CONV = "C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]"


def conv(notation: str = CONV) -> Computation:
    return Computation.parse(notation, k=8, c=8, x=8, y=8, r=3, s=3)


def maps(matches) -> set[str]:
    return {str(m) for m in matches}


def test_tree_of_the_papers_convolution_has_nine_leaves_in_layout_order() -> None:
    tree = syntax_tree(conv())
    assert [leaf.dim for leaf in tree.leaves] == ["c", "x", "r", "y", "s", "k", "c", "r", "s"]
    assert tree.lca[1][2] is Operation.ADD  # x + r
    assert tree.lca[0][1] is Operation.INDEX  # c and x, two axes of A
    assert tree.lca[0][6] is Operation.MULTIPLY  # c of A and c of B


def test_tree_prints_every_node() -> None:
    text = syntax_tree(conv("C[k,x,y] += A[c,2*x+r,y+s] * B[k,c,r,s]")).render()
    assert text.splitlines()[:6] == [
        "sum c,r,s",
        "  multiply",
        "    index A",
        "      c [0, 8)",
        "      add",
        "        scale 2",
    ]


def test_rows_and_taps_of_one_axis_are_never_matched_to_two_axes_of_the_intrinsic() -> None:
    for match in printed_matches(conv(), intrinsic("gemv")):
        assert dict(match.index_map) not in ({"i": "x", "j": "r"}, {"i": "y", "j": "s"})


def test_every_unsound_choice_says_which_condition_fails() -> None:
    unsound = [m for m in printed_matches(conv(), intrinsic("gemm")) if not m.is_sound]
    assert len(unsound) == 34
    assert all(m.reason and m.failed in (Condition.ITERATION_TYPES, Condition.COVERAGE) for m in unsound)


def test_operand_maps_carry_the_stride() -> None:
    computation = conv("C[k,x,y] += A[c,2*x+r,y+s] * B[k,c,r,s]")
    match = next(m for m in sound_matches(computation, intrinsic("gemm")) if str(m) == "i->x, j->k, k->c")
    first, second, output = match.operands
    assert (first.tensor, first.axes) == ("A", ((1, 2), (0, 1)))
    assert (second.tensor, second.axes) == ("B", ((1, 1), (0, 1)))
    assert (output.tensor, output.axes) == ("C", ((1, 1), (0, 1)))


def test_a_strided_convolution_does_not_fit_a_unit_stride_convolution_core() -> None:
    strided = conv("C[k,x,y] += A[c,2*x+r,y+s] * B[k,c,r,s]")
    assert sound_matches(strided, intrinsic("conv2d")) == ()
    miss = nearest_miss(strided, intrinsic("conv2d"))
    assert miss is not None
    assert miss.condition is Condition.COVERAGE
    assert "coefficients 2+1" in miss.reason


def test_a_convolution_strided_and_dilated_by_the_same_factor_does_fit() -> None:
    both = conv("C[k,x,y] += A[c,2*x+2*r,y+s] * B[k,c,r,s]")
    assert "k->k, x->x, y->y, c->c, r->r, s->s" in maps(sound_matches(both, intrinsic("conv2d")))


def test_a_diagonal_access_is_not_covered() -> None:
    diagonal = Computation.parse("S[] += A[i,i] * B[i]", i=4)
    match = printed_matches(diagonal, intrinsic("dot"))[0]
    assert match.failed is Condition.COVERAGE


def test_two_axes_along_one_output_axis_are_not_covered() -> None:
    deconvolution = Computation.parse("O[x+r] += I[x] * W[r]", x=4, r=3)
    outer = intrinsic("L[i,j] += M[i] * N[j]", "4x4")
    assert [m.failed for m in printed_matches(deconvolution, outer)] == [Condition.COVERAGE, Condition.COVERAGE]


def test_depthwise_convolution_matches_a_matrix_unit_only_partially() -> None:
    depthwise = Computation.parse("C[c,x,y] += A[c,x+r,y+s] * B[c,r,s]", c=8, x=8, y=8, r=3, s=3)
    assert sound_matches(depthwise, intrinsic("gemm")) == ()
    partial = partial_matches(depthwise, intrinsic("gemm"))
    assert maps(partial) == {"i->x, k->s", "i->y, k->r", "j->x, k->s", "j->y, k->r"}
    assert partial[0].operands[0].axes[0] is not None
    assert None in partial[0].operands[1].axes


@pytest.mark.parametrize(
    ("notation", "name", "condition", "text"),
    [
        ("L[i,j] += M[i,k] * N[k,j]", "conv2d", Condition.INDEX, "has 6 indices, the computation only 3"),
        ("Y[i] += X[i] * Z[k]", "gemv", Condition.INDEX, "'j' occurs 2 times"),
        ("Y[a,b,c,d] += X[a,b,e,f,g] * W[c,d,e,f,g]", "conv2d", Condition.STRUCTURE, "an addition inside one axis"),
        ("D[i,j] += A[i,k,j] * C[k,j]", "gemm", Condition.COVERAGE, "'j' also indexes A[i,k,j] (axis 3)"),
        ("D[i] += A[i,j,l] * C[j,l] * E[i,l,j]", "L[i,j] += M[i] * N[j]", Condition.ITERATION_TYPES, "summed over"),
    ],
)
def test_nearest_miss(notation: str, name: str, condition: Condition, text: str) -> None:
    dims = {d: 4 for d in "abcdefgijkl" if d in notation}
    unit = intrinsic(name, None if "[" not in name else "4x4")
    computation = Computation.parse(notation, dims)
    miss = nearest_miss(computation, unit)
    assert miss is not None
    assert miss.condition is condition, miss
    assert text in str(miss)
    assert f"condition {condition.value}" in str(no_match_error(computation, unit))


def test_there_is_no_miss_where_there_is_a_match() -> None:
    assert nearest_miss(conv(), intrinsic("dot")) is None


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: intrinsic("gem"), "did you mean 'gem"),
        (lambda: intrinsic("gemm", "16x16"), "has 2 numbers, the intrinsic has 3 indices"),
        (lambda: intrinsic("gemm", "16x-2x1"), "must be integers joined by x"),
        (lambda: intrinsic("gemm", "i=4,j=4"), "no bound given for dimension 'k'"),
        (lambda: intrinsic("gemm", "0x4x4"), "bound of 'i' must be >= 1, got 0"),
        (lambda: intrinsic("Y[i] += X[i,j] * W[j]"), "needs a size"),
        (lambda: intrinsic("Y[i,j] += X[i]", "4x4"), "'j' occurs in no input"),
        (lambda: intrinsic("Y[i] + X[i]", "4"), "at character 6"),
        (lambda: parse_bounds("k=64,c"), "expected name=integer, got 'c'"),
        (lambda: parse_bounds("k=64,k=3"), "'k' is given twice"),
    ],
)
def test_bad_input_is_named(make, text: str) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert text in str(caught.value)
