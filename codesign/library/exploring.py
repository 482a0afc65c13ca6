"""`explore`: the Pareto front of accelerators for a workload."""

from pathlib import Path

from codesign.library.studies import Exploration
from codesign.study.run import Listener, run_study
from codesign.study.specification import StudySpec, read_study_spec


def explore(spec: StudySpec | str | Path, listener: Listener | None = None) -> Exploration:
    """Run or resume a study: the designs of a space that no other one beats in every objective.

    Args:
        spec: What to search, or the YAML or JSON file that says so.
        listener: Told how the run goes on; None for silence.

    Returns:
        The study with its front. Its trials are in the folder of `spec.place`; the same call goes on after an interruption.

    Raises:
        UserError: A field that cannot be used; the message names it.
    """
    spec = spec if isinstance(spec, StudySpec) else read_study_spec(spec)
    run = run_study(spec, listener)
    return Exploration(run.study, run.certificate, run.certified, spec)
