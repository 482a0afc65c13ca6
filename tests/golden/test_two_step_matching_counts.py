"""Counts of tensorize choices against the reference data, for every pair in the file, and the time they take."""

import json
import re
import time

import pytest

from codesign.tensorization.diagnosis import nearest_miss
from codesign.tensorization.intrinsics import intrinsic
from codesign.tensorization.matching import Condition, printed_matches
from codesign.workloads.computation import Computation
from tests.reference_data import REFERENCE

DATA = REFERENCE / "hasco" / "two_step_matching.json"
NOTATIONS = {  # HASCO Table I and Sec. VII-B
    "DOT": "S[] += A[i] * B[i]",
    "GEMV": "C[i] += A[i,j] * B[j]",
    "GEMM": "L[i,j] += M[i,k] * N[k,j]",
    "TTM": "C[i,j,k] += A[i,j,l] * B[l,k]",
    "CONV2D": "C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]",
    "MTTKRP(flat)": "D[i,j] += A[i,k,l] * B[l,j] * C[k,j]",
    "MTTKRP stage1 E=A*B": "E[i,k,j] += A[i,k,l] * B[l,j]",
    "MTTKRP stage2 D=E*C": "D[i,j] += E[i,k,j] * C[k,j]",
}
COUNTS = json.loads(DATA.read_text())["counts"] if DATA.is_file() else {}
MATCHING_SECONDS = 0.050  # the target for any pair


def _computation(name: str) -> Computation:
    notation = NOTATIONS.get(name, name)  # a file may also name a computation by its notation
    axes = re.findall(r"\[([^\]]*)\]", notation)
    return Computation.parse(notation, {d: 8 for part in axes for d in re.findall(r"[A-Za-z_]\w*", part)})


@pytest.mark.parametrize("pair", COUNTS)
def test_counts_and_index_maps(pair: str) -> None:
    ours, theirs = pair.split(" <- ")
    matches = printed_matches(_computation(ours), intrinsic(theirs))
    assert len(matches) == COUNTS[pair]["literal_two_step"]
    typed = [m for m in matches if m.failed is not Condition.ITERATION_TYPES]
    assert len(typed) == COUNTS[pair]["plus_iter_type"]
    sound = {frozenset(m.index_map) for m in matches if m.is_sound}
    assert len(sound) == COUNTS[pair]["sound"]
    assert sound == {frozenset(m.items()) for m in COUNTS[pair]["sound_index_maps"]}


@pytest.mark.slow("speed")
@pytest.mark.parametrize("pair", COUNTS)
def test_matching_and_diagnosis_are_quick(pair: str) -> None:
    ours, theirs = pair.split(" <- ")
    computation, unit = _computation(ours), intrinsic(theirs)

    def seconds() -> float:
        start = time.process_time()
        printed_matches(computation, unit)
        nearest_miss(computation, unit)
        return time.process_time() - start

    assert min(seconds() for _ in range(3)) < MATCHING_SECONDS


@pytest.mark.parametrize("pair", COUNTS)
def test_diagnosis_names_a_miss_only_where_nothing_matches(pair: str) -> None:
    ours, theirs = pair.split(" <- ")
    miss = nearest_miss(_computation(ours), intrinsic(theirs))
    assert (miss is None) == (COUNTS[pair]["sound"] > 0)
