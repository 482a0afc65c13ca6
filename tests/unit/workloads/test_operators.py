import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.core.errors import UserError
from codesign.workloads import operators
from codesign.workloads.computation import Computation, Role


def execute(computation: Computation, *arrays: np.ndarray) -> np.ndarray:
    """The computation, iteration by iteration, on arrays that cover the box of every input."""
    shape = computation.output.shape(computation.sizes)
    result = np.zeros(shape)
    for point in np.ndindex(*computation.bounds):
        at = dict(zip(computation.dims, point, strict=True))
        product = 1.0
        for tensor, array in zip(computation.inputs, arrays, strict=True):
            product *= array[tuple(sum(c * at[d] for d, c in axis.terms) for axis in tensor.axes)]
        result[tuple(sum(c * at[d] for d, c in axis.terms) for axis in computation.output.axes)] += product
    return result


def inputs_of(computation: Computation) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, t.shape(computation.sizes)).astype(float) for t in computation.inputs]


def direct_conv(
    x: np.ndarray, w: np.ndarray, stride: tuple[int, int], dilation: tuple[int, int], groups: int, out: tuple[int, int]
) -> np.ndarray:
    """Textbook convolution of ``n x c x h x w`` by ``k x c/g x r x s``, sliced, not looped over taps of the notation."""
    n = len(x)
    k, cg, r, s = w.shape
    y = np.zeros((n, k, *out))
    for ko in range(k):
        group = ko // (k // groups)
        channels = x[:, group * cg : (group + 1) * cg]
        for p in range(out[0]):
            for q in range(out[1]):
                rows = slice(p * stride[0], p * stride[0] + (r - 1) * dilation[0] + 1, dilation[0])
                columns = slice(q * stride[1], q * stride[1] + (s - 1) * dilation[1] + 1, dilation[1])
                y[:, ko, p, q] = (channels[:, :, rows, columns] * w[ko]).sum(axis=(1, 2, 3))
    return y


@pytest.mark.parametrize(
    ("stride", "dilation", "groups"),
    [((1, 1), (1, 1), 1), ((2, 1), (1, 2), 1), ((1, 2), (2, 1), 2), ((2, 2), (1, 1), 4)],
)
def test_convolution_computes_a_convolution(stride: tuple[int, int], dilation: tuple[int, int], groups: int) -> None:
    k, c = 4, 4
    conv = operators.conv2d(N=2, K=k, C=c, P=2, Q=3, R=3, S=2, G=groups, stride=stride, dilation=dilation)
    x, w = inputs_of(conv)
    image = x.reshape(2, c, *x.shape[-2:])
    filters = w.reshape(k, c // groups, 3, 2)
    expected = direct_conv(image, filters, stride, dilation, groups, (2, 3))
    np.testing.assert_array_equal(execute(conv, x, w).reshape(2, k, 2, 3), expected)


def test_notation_and_roles_of_a_convolution() -> None:
    conv = operators.conv2d(K=8, C=4, P=5, Q=6, R=3, S=3, stride=2, dilation=(1, 3))
    assert str(conv) == "Outputs[N,K,P,Q] += Inputs[N,C,2*P+R,2*Q+3*S] * Weights[K,C,R,S]"
    assert {t.name: t.role for t in conv.tensors} == {
        "Inputs": Role.INPUT,
        "Weights": Role.WEIGHT,
        "Outputs": Role.OUTPUT,
    }


def test_depthwise_is_the_published_shape_without_output_channels() -> None:
    conv = operators.conv2d(K=192, C=192, P=28, Q=28, R=3, S=3, G=192)
    assert str(conv) == "Outputs[N,C,P,Q] += Inputs[N,C,P+R,Q+S] * Weights[C,R,S]"
    assert conv.macs == 192 * 28 * 28 * 9


def test_grouped_has_a_group_dimension_and_channels_per_group() -> None:
    conv = operators.conv2d(K=128, C=64, P=7, Q=7, R=3, S=3, G=32)
    assert conv.sizes == {"N": 1, "G": 32, "K": 4, "P": 7, "Q": 7, "C": 2, "R": 3, "S": 3}


def test_one_and_three_axes() -> None:
    line = operators.conv_nd(K=2, C=3, output=(5,), kernel=(3,), stride=(2,))
    assert str(line) == "Outputs[N,K,P] += Inputs[N,C,2*P+R] * Weights[K,C,R]"
    video = operators.conv_nd(K=2, C=3, output=(4, 5, 6), kernel=(3, 1, 1))
    assert str(video) == "Outputs[N,K,D,P,Q] += Inputs[N,C,D+T,P+R,Q+S] * Weights[K,C,T,R,S]"
    assert video.macs == 2 * 3 * 4 * 5 * 6 * 3


def test_transposed_convolution_has_the_macs_of_its_input_form() -> None:
    # every one of 7 x 7 input pixels meets every one of 4 x 4 taps
    (up,) = operators.transposed_conv(K=16, C=8, size=(7, 7), kernel=(4, 4), stride=(2, 2))
    assert up.macs == 16 * 8 * 7 * 7 * 4 * 4
    assert up.tensor_words(up.output) == 16 * 14 * 14
    assert up.tensor_words(up.tensor("Weights")) == 16 * 8 * 4 * 4


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3
    ),
    st.sampled_from([1, 2]),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_phases_of_a_transposed_convolution_share_out_its_taps(
    axes: list[tuple[int, int, int, int]], groups: int
) -> None:
    size, kernel, stride, dilation = (tuple(axis[i] for axis in axes) for i in range(4))
    parts = operators.transposed_conv(K=4, C=6, G=groups, size=size, kernel=kernel, stride=stride, dilation=dilation)
    assert sum(p.macs for p in parts) == 4 * 6 // groups * math.prod(size) * math.prod(kernel)
    assert sum(p.tensor_words(p.tensor("Weights")) for p in parts) == 4 * 6 // groups * math.prod(kernel)
    assert len(parts) <= 2 ** len(axes)
    for n, k, s, d in axes:  # the taps of every phase, counted one by one
        taps = Counter(d * r % s for r in range(k))
        assert sorted(taps.values()) == sorted(t for phases, t in operators.phase_taps(k, s, d) for _ in range(phases))
        assert n >= 1


@pytest.mark.parametrize(
    ("computation", "einsum"),
    [
        (operators.gemm(M=3, N=4, K=5), "mk,kn->mn"),
        (operators.gemv(M=3, K=5), "k,mk->m"),
        (operators.batched_matmul(B=2, M=3, N=4, K=5), "bmk,bkn->bmn"),
        (operators.dot(K=5), "k,k->"),
        (operators.ttm(M=2, N=3, K=4, L=5), "mnl,lk->mnk"),
        (operators.mttkrp(M=2, N=3, K=4, L=5), "mkl,kn,ln->mn"),
        (operators.broadcast_matmul(M=3, N=4, K=5, shared=2, input_only=3), "bamk,bkn->bamn"),
        (operators.broadcast_matmul(M=3, N=4, K=5, shared=2, weight_only=3), "bmk,bekn->bemn"),
        (operators.broadcast_matmul(M=3, N=4, K=5, input_only=6), "mk,kn->mn"),
    ],
)
def test_products_compute_what_einsum_does(computation: Computation, einsum: str) -> None:
    arrays = inputs_of(computation)
    np.testing.assert_array_equal(execute(computation, *arrays), np.einsum(einsum, *arrays))


def test_mttkrp_has_three_inputs() -> None:
    assert [t.role for t in operators.mttkrp(M=2, N=3, K=4, L=5).tensors] == [
        Role.INPUT,
        Role.WEIGHT,
        Role.WEIGHT,
        Role.OUTPUT,
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: operators.conv2d(K=6, C=4, P=1, Q=1, G=4), "`G` must divide K, got G=4 and K=6"),
        (lambda: operators.conv2d(K=4, C=6, P=1, Q=1, G=4), "`G` must divide C, got G=4 and C=6"),
        (lambda: operators.conv2d(K=4, C=4, P=1, Q=1, G=0), "`G` must be an integer >= 1, got 0"),
        (lambda: operators.conv2d(K=4, C=4, P=0, Q=1), "bound of 'P' must be >= 1, got 0"),
        (lambda: operators.conv2d(K=4, C=4, P=1, Q=1, stride=0), "`stride` must be an integer >= 1, got 0"),
        (lambda: operators.conv2d(K=4, C=4, P=1, Q=1, dilation=(1, -1)), "`dilation` must be an integer >= 1, got -1"),
        (lambda: operators.conv_nd(K=4, C=4, output=(1,) * 4, kernel=(1,) * 4), "expected 1 to 3 output axes"),
        (lambda: operators.conv_nd(K=4, C=4, output=(1, 1), kernel=(1,)), "expected 1 to 3 output axes"),
        (lambda: operators.gemm(M=0, N=1, K=1), "bound of 'M' must be >= 1, got 0"),
    ],
)
def test_bad_sizes(make: Callable[[], Computation], message: str) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert message in str(caught.value)
