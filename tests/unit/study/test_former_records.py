"""Studies that an earlier version recorded are gone on with under the present names."""

from pathlib import Path
from typing import Any

import pytest

from codesign.core.errors import UserError
from codesign.evaluation.judges import _mapper_record
from codesign.mappers.exact import ExactMapper
from codesign.study.config import StudyConfig, is_low_fidelity
from codesign.study.former_records import present_config
from codesign.study.storage import Database, sqlite_url
from codesign.study.study import DATABASE_FILE, Study


def config(optimizer: str, key: str, evaluations: int = 20) -> StudyConfig:
    evaluation: dict[str, Any] = {"objective": "edp", key: {"evaluations": evaluations}}
    space = {"name": "toy", "space": {"parameters": []}}
    return StudyConfig(space, {"names": ["n"]}, ("latency_s",), (), optimizer, {"name": "exact"}, evaluation, 0)


FORMER = config("cheap evaluations of mobo, two fidelities", "cheap")
PRESENT = config("low-fidelity evaluations of mobo, two fidelities", "low_fidelity")


def record_formerly(folder: Path) -> None:
    """What the earlier version left in the folder."""
    database = Database(sqlite_url(folder / DATABASE_FILE), create=True)
    database.create("study-cheap", FORMER.objectives, {"config": FORMER.to_json(), "versions": {}}, "")
    database.close()


def test_the_present_configuration_stays_as_it_is() -> None:
    assert present_config(FORMER.to_json()) == PRESENT.to_json() == present_config(PRESENT.to_json())


def test_a_study_under_its_former_name_is_resumed(tmp_path: Path) -> None:
    record_formerly(tmp_path)
    resumed = Study.create_or_resume(tmp_path, PRESENT, {}, name="study-low-fidelity")
    assert is_low_fidelity(resumed.config) and resumed.config["evaluation"]["low_fidelity"] == {"evaluations": 20}
    resumed.close()
    summaries = Database(sqlite_url(tmp_path / DATABASE_FILE), create=False).studies()
    assert [s.name for s in summaries] == ["study-cheap"], "nothing is made beside it"
    assert is_low_fidelity(summaries[0].head["config"])


def test_another_budget_is_another_study_whatever_its_spelling(tmp_path: Path) -> None:
    record_formerly(tmp_path)
    other = config(PRESENT.optimizer, "low_fidelity", evaluations=30)
    with pytest.raises(UserError, match=r"low_fidelity\.evaluations: 20, asked for 30"):
        Study.create_or_resume(tmp_path, other, {}, name="study-low-fidelity")


def test_what_only_code_sets_of_a_mapper_is_not_recorded() -> None:
    """Else a study would not be gone on with once its mapper has one more such option."""
    assert _mapper_record(ExactMapper(annealed=False)) == {"name": "exact", "effort": None, "threads": 1}


def test_an_option_younger_than_some_studies_is_recorded_where_it_is_set() -> None:
    assert _mapper_record(ExactMapper(uneven=True))["uneven"] is True
