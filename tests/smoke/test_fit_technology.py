import json
from pathlib import Path

import pytest
import yaml

from codesign.arch.technology import Technology
from codesign.arch.technology_files import load_technology, technology_from_json
from experiments.fit_technology import Config, read_sweep, run
from tests.unit.arch.test_technology_files import OWN

QUANTITIES = ("read_pj", "write_pj", "leakage_mw", "area_mm2")


def test_the_shipped_curves_are_what_the_program_fits(tmp_path: Path) -> None:
    config = Config(sweep=Path(__file__).parents[1] / "data" / "technology" / "sram_cacti7.csv", out=tmp_path)
    fits = run(config)
    record = json.loads((tmp_path / "sram_fit.json").read_text())
    assert record["config"]["seed"] == 0
    assert record["nodes"].keys() == {f"{node:g}" for node in fits}
    written = yaml.safe_load((tmp_path / "sram_fit.yaml").read_text())
    assert (tmp_path / "sram_fit.svg").read_text().startswith("<svg")
    for node, sweep in read_sweep(config.sweep).items():
        shipped = load_technology(f"cmos-{node:g}nm")
        fitted = technology_from_json(OWN | written | {"node_nm": node})
        for row in zip(*sweep.size, strict=True):
            assert figures(fitted, row) == pytest.approx(figures(shipped, row), rel=0.01)


def figures(technology: Technology, row: tuple[float, float, float]) -> list[float]:
    capacity_bytes, word_bits, banks = row
    return [getattr(technology.sram, q)(capacity_bytes, int(word_bits), int(banks)) for q in QUANTITIES]
