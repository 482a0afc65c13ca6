"""The experiment of proven fronts, within 50 %, and its message for an unknown case."""

import json

import pytest

from codesign.core.errors import UserError
from experiments.proven_front import main


def test_it_ends_with_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--smoke"])
    line = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert (
        line["proven"] and line["epsilon_proven"] <= 0.5 and line["worst_factor"] <= 1 + line["epsilon_proven"] + 1e-6
    )
    assert line["evaluated"] < 10 and line["evaluated_share"] == pytest.approx(line["evaluated"] / 1536)
    assert line["front_equal"] is False and line["cpu_seconds"] > 0


def test_an_unknown_case_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="gemcore"):
        main(["--case", "gemcore"])
