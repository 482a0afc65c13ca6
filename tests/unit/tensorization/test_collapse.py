import numpy as np
import pytest

from codesign.tensorization.choice import choices
from codesign.tensorization.execute import affine_einsum, random_inputs, run_choice
from codesign.tensorization.intrinsics import intrinsic
from codesign.workloads.computation import Computation
from experiments.models.collapse import collapsed


@pytest.mark.parametrize(
    ("notation", "bounds", "expected"),
    [
        ("C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", "k=4,x=5,y=3,c=6,r=1,s=1", "C[k,x_y] += A[c,x_y] * B[k,c]"),
        ("C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", "k=4,x=5,y=3,c=6,r=3,s=3", None),
        ("C[k,x,y] += A[c,2*x+r,2*y+s] * B[k,c,r,s]", "k=4,x=5,y=3,c=6,r=1,s=1", "C[k,x,y] += A[c,2*x,2*y] * B[k,c]"),
        ("C[i,j,k] += A[i,j,l] * B[l,k]", "i=3,j=4,k=5,l=2", "C[i_j,k] += A[i_j,l] * B[l,k]"),
        ("C[i,j,k] += A[j,i,l] * B[l,k]", "i=3,j=4,k=5,l=2", None),
        ("C[i] += A[i,k,l] * B[k,l]", "i=3,k=4,l=5", "C[i] += A[i,k_l] * B[k_l]"),
        ("C[i,i_j,k] += A[i,i_j,k]", "i=2,i_j=3,k=4", "C[i_i_j_k] += A[i_i_j_k]"),
    ],
)
def test_neighbouring_axes_become_one(notation: str, bounds: str, expected: str | None) -> None:
    sizes = {name: int(n) for name, n in (part.split("=") for part in bounds.split(","))}
    computation = Computation.parse(notation, sizes)
    found = collapsed(computation)
    assert str(found) == (str(computation) if expected is None else expected)
    assert found.macs == computation.macs
    assert (found is computation) == (expected is None)
    inputs = random_inputs(computation, 0)
    short = {t.name: inputs[t.name].reshape(t.shape(found.sizes)) for t in found.inputs}
    want = affine_einsum(computation, inputs)
    assert np.array_equal(affine_einsum(found, short).reshape(want.shape), want)


def test_programs_of_the_shorter_form_compute_the_same() -> None:
    plain = Computation.parse("C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", k=5, x=3, y=3, c=6, r=1, s=1)
    short = collapsed(plain)
    inputs = random_inputs(plain, 1)
    flat = {t.name: inputs[t.name].reshape(t.shape(short.sizes)) for t in short.inputs}
    want = affine_einsum(plain, inputs)
    found = choices(short, intrinsic("gemm", "4x4x4"))
    assert len(found) == 2
    for choice in found:
        assert np.array_equal(run_choice(choice, flat).reshape(want.shape), want)
