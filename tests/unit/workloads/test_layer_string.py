import pytest

from codesign.core.errors import UserError
from codesign.workloads import operators
from codesign.workloads.computation import Computation
from codesign.workloads.layer_string import parse_layer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "conv K=64 C=64 P=56 Q=56 R=3 S=3 stride=2 dilation=1 N=1 G=1",
            operators.conv2d(K=64, C=64, P=56, Q=56, R=3, S=3, stride=2),
        ),
        ("conv K=64 C=64 P=56 Q=56", operators.conv2d(K=64, C=64, P=56, Q=56)),
        ("Conv2d k=4 c=8 p=2 q=3 Stride=2x1", operators.conv2d(K=4, C=8, P=2, Q=3, stride=(2, 1))),
        ("conv K=8 C=8 P=2 Q=3 R=3 dilation=2,3", operators.conv2d(K=8, C=8, P=2, Q=3, R=3, dilation=(2, 3))),
        ("dwconv C=8 P=2 Q=3 R=3 S=3", operators.conv2d(K=8, C=8, P=2, Q=3, R=3, S=3, G=8)),
        ("dwconv C=8 P=2 Q=3 multiplier=2", operators.conv2d(K=16, C=8, P=2, Q=3, G=8)),
        ("gemm M=1 N=2 K=3", operators.gemm(M=1, N=2, K=3)),
        ("matmul M=1 N=2 K=3", operators.gemm(M=1, N=2, K=3)),
        ("gemv M=1 K=3", operators.gemv(M=1, K=3)),
        ("bmm B=12 M=1 N=2 K=3", operators.batched_matmul(B=12, M=1, N=2, K=3)),
        ("dot K=3", operators.dot(K=3)),
        ("ttm M=1 N=2 K=3 L=4", operators.ttm(M=1, N=2, K=3, L=4)),
        ("mttkrp M=1 N=2 K=3 L=4", operators.mttkrp(M=1, N=2, K=3, L=4)),
        ("gemm M=1 N=2 K=3 bits=16 partial_bits=32", operators.gemm(M=1, N=2, K=3, bits=16, partial_bits=32)),
        (
            "Y[i] += A[i,j] * X[2*j] i=4 j=8 bits=16",
            Computation.parse("Y[i] += A[i,j] * X[2*j]", i=4, j=8, bits=16),
        ),
    ],
)
def test_forms(text: str, expected: Computation) -> None:
    assert parse_layer(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a layer, got nothing"),
        ("cnov K=1", "unknown operator 'cnov'"),
        ("conv K=64 C=64 P=56", "conv needs K, C, P, Q; missing: Q"),
        ("conv K=64 C=64 P=56 Q=56 T=3", "unknown field of conv 'T'"),
        ("conv K=64 C=64 P=56 Q=56 strid=3", "did you mean 'stride'?"),
        ("conv K=64 C=64 P=56 Q=56 K=3", "`K` is given twice"),
        ("conv K=64 k=64 C=64 P=56 Q=56", "`K` is given twice"),
        ("conv K=-4 C=64 P=56 Q=56", "`K` must be an integer >= 1, got '-4'"),
        ("conv K=1.5 C=64 P=56 Q=56", "`K` must be an integer >= 1, got '1.5'"),
        ("conv K=0 C=64 P=56 Q=56", "`K` must be an integer >= 1, got '0'"),
        ("conv K=8 C=8 P=5 Q=5 stride=2x2x2", "`stride` must be a number or HEIGHTxWIDTH, got '2x2x2'"),
        ("conv K 64", "expected FIELD=NUMBER, got 'K'"),
        ("conv K=", "expected FIELD=NUMBER, got 'K='"),
        ("conv K=6 C=8 P=5 Q=5 G=4", "`G` must divide K, got G=4 and K=6"),
        ("gemm M=1 N=2 K=3 stride=2", "unknown field of gemm 'stride'"),
        ("gemm M=1 N=2 K=3 bits=8 partial_bits=4", "1 <= bits <= partial_bits, got 8 and 4"),
        ("Y[i] += A[i,j] i=4", "no bound given for dimension 'j'"),
        ("Y[i] += A[i,j] i=4 j=x", "`j` must be an integer >= 1, got 'x'"),
    ],
)
def test_bad_layers_name_the_field_and_the_layer(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_layer(text)
    assert message in str(caught.value)
    assert f"layer {text!r}" in str(caught.value)
