"""DOSA's protocol, two designs of two contestants: one line, no product below the proven optimum, judged designs kept."""

import json
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from experiments.dosa_contest import main


@pytest.mark.slow("oracle")
def test_it_ends_with_one_line_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--smoke", "--out", str(tmp_path)])
    line = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert line["network"] == "bert" and line["designs"] == [2]
    for name in ("random", "mobo"):
        assert line[name]["over_optimum"][0] >= 1 - 1e-5
    assert len(json.loads((tmp_path / "bert.json").read_text())) <= 4


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must be at least 1"):
        main(["--designs", "0", "--out", str(tmp_path)])
    with pytest.raises(UserError, match="unknown workload 'brt'"):
        main(["--network", "brt", "--out", str(tmp_path)])
