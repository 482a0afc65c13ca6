"""The experiment on zeros and widths: what its variants are, and that it runs."""

import json
from pathlib import Path

import pytest

from codesign.workloads.density import DENSE, Structured
from experiments.sparse_codesign import VARIANTS, Design, judge, run, work_of


def test_variants_change_what_they_say() -> None:
    by_name = {v.name: work_of("llama3-8b-block", 1, 64, v) for v in VARIANTS}
    all_plain, all_packed = by_name["W16A16"], by_name["W4 + KV8 + 2:4"]
    plain, packed = all_plain.layers, all_packed.layers
    assert {p.widths for p in all_packed.pairs} == {(16, 4), (16, 8)}
    assert sum(plain.values()) == sum(packed.values())
    assert {t.bits for c in plain for t in c.tensors} == {16}
    assert {(c.tensors[1].bits, c.tensors[1].density) for c in packed} == {
        (4, Structured(2, 4, axis))
        for axis in {c.tensors[1].density.axis for c in packed if isinstance(c.tensors[1].density, Structured)}
    } | {(8, DENSE)}
    design = Design(16, 512, "lpddr4 8 GB/s", skips=False)
    slow, fast = judge(design, all_plain), judge(design, all_packed)
    assert fast.seconds < slow.seconds / 3.5
    assert fast.joules < slow.joules / 3.5


@pytest.mark.slow("oracle")
def test_the_experiment_runs(tmp_path: Path) -> None:
    result = run(True, tmp_path, (1,))
    assert result["mappings_proven"] == 1.0
    assert len(json.loads((tmp_path / "results.json").read_text())["rows"]) == 6
