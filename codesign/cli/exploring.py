"""What `codesign explore` shows: a progress bar while a study runs, then the front and where the report is."""

from collections.abc import Sequence
from pathlib import Path
from typing import final

from rich.console import Console
from rich.table import Table

from codesign.cli.inputs import counted
from codesign.cli.tables import counting_bar, make_table
from codesign.evaluation.metrics import UNITS, figures_text, format_si, unit_of
from codesign.optim.certificate import Certificate
from codesign.study.contended import CONTENTION_FILE
from codesign.study.mapping_front import MAPPING_FRONT_FILE
from codesign.study.masked_front import masked_front
from codesign.study.owner import owner_label
from codesign.study.retime import TIMING_FILE
from codesign.study.run import PreparedStudy, StudyRun, run_study, why_no_bounds
from codesign.study.specification import StudySpec
from codesign.study.storage import Claim
from codesign.study.study import REPORT_FILE, Study, Trial, hypervolume_curve

MACHINE_SHARE = 0.1
"""CPU seconds spent on cycles of generated machines after a search, over its own; `codesign report` goes on."""

LEAST_SECONDS = 0.5
"""A shorter time is not worth its start."""


def run_explore(spec: StudySpec, *, front_to_stderr: bool, certificate: Path | None = None) -> StudyRun:
    """Run or resume a study, write its report, print its front; returns it, and what is proven where that was asked for.

    Args:
        spec: What to search.
        front_to_stderr: Keep stdout for something else than the table of the front.
        certificate: Where the certificate of the front is written, if it is.

    Raises:
        UserError: A field that cannot be used, or a database that holds another study under the name.
    """
    run = run_study(spec, ProgressBar())
    try:
        console = Console(stderr=front_to_stderr)
        finish(run.study, Path(spec.place.out), console)
        if run.timed:
            console.print(timed_table(run))
        if run.contended:
            console.print(contended_table(run))
        for sentence in masked_front(run.study, spec):
            console.print(sentence, highlight=False)
        if run.mappings is not None:
            console.print(f"{run.mappings.sentence()} ({MAPPING_FRONT_FILE})", highlight=False)
        if sentence := what_is_certified(run):
            console.print(sentence, highlight=False)
        if certificate is not None:
            from codesign.study.front_certificate import front_certificate, write_front_certificate

            document = front_certificate(spec, run.study, run.certificate)
            write_front_certificate(certificate, document)
            listed = f"{len(document['evaluated'])} designs with mappings, {len(document['left_out'])} with bounds"
            console.print(f"certificate: {certificate} ({listed})", highlight=False)
        if run.pages:
            console.print(f"systems and schedules of the front: {run.pages[0].parent}", highlight=False)
        if run.schedule_sentence:
            console.print(run.schedule_sentence, highlight=False)
    finally:
        run.study.close()
    return run


def what_is_certified(run: StudyRun) -> str:
    """How much better than the front any design may be, as the last line of a run; empty where nothing is known."""
    from codesign.study.certified import read_certified

    if run.certified is not None:
        sentence = run.certified.sentence()
    else:
        earlier = read_certified(run.study)
        sentence = "" if earlier is None else earlier.get("sentence", "")
    return sentence[:1].upper() + sentence[1:]


@final
class ProgressBar:
    """Shows a run on a console; a `codesign.study.run.Listener`."""

    def __init__(self) -> None:
        self._bar = counting_bar("{task.fields[note]}")
        self._console = self._bar.console
        self._task = self._bar.add_task("exploring", total=None, note="")
        self._trials = 0

    def begins(self, prepared: PreparedStudy, study: Study, certificate: Certificate | None) -> None:
        """See `Listener`."""
        console, done, trials = self._console, len(study.trials), prepared.trials
        if done >= trials:
            console.print(f"{study.storage} has {counted(done, 'trial')}: --trials {trials} asks for no more")
        elif done:
            console.print(f"{study.storage}: going on after {counted(done, 'finished trial')}")
        workers, space = prepared.spec.workers, prepared.space
        where = counted(workers.count or 1, "worker") if workers.executor == "process" else "Ray"
        how_many = "until proven" if prepared.until_proven else counted(trials, "trial")
        console.print(
            f"{prepared.judge.headline}; space {space.name!r}: up to {space.space.cardinality_bound:,} designs; "
            f"{study.config['optimizer']}, {how_many}, {where}"
        )
        if certificate is not None and certificate.withdrawn:
            reason = certificate.withdrawn
            console.print(f"nothing can be proven: {reason}; designs are proposed by black-box mobo", highlight=False)
        if reason := why_no_bounds(prepared):
            console.print(f"no bounds: {reason}; mobo searches like a black box", highlight=False)
        self._trials = trials
        self._bar.update(self._task, total=max(trials, done), completed=done)
        self._bar.start()

    def trial(self, study: Study, trial: Trial, certificate: Certificate | None) -> None:
        """See `Listener`."""
        finished = len(study.trials)
        if certificate is not None and certificate.open:
            self._bar.update(self._task, total=min(self._trials, finished + certificate.open))
        self._bar.update(self._task, completed=finished, note=_gap(certificate) or _note(study, trial))

    def waits(self, claims: Sequence[Claim]) -> None:
        """See `Listener`."""
        self._bar.update(self._task, note="waiting for " + "; ".join(sorted({_owner(c) for c in claims})))

    def certifies(self, seconds: float) -> None:
        """See `Listener`."""
        self._console.print(
            f"bounding the designs not tried, for {seconds:g} CPU s at most (--certify)", highlight=False
        )

    def ends(self, run: StudyRun, low: Study | None, *, interrupted: bool, complete: bool) -> None:
        """See `Listener`."""
        self._bar.stop()
        study, certificate = run.study, run.certificate
        if interrupted:
            self._console.print(
                f"interrupted: {counted(len(study.trials), 'trial')} kept; run the same command to go on"
            )
        if low is not None:
            self._console.print(f"{counted(len(low.trials), 'low-fidelity evaluation')}; {_costs(low, study)}")
        if not complete and not (certificate is not None and certificate.proven):
            self._console.print(f"the space holds no further design: {counted(len(study.trials), 'trial')} in all")
        if certificate is not None and not interrupted:
            self._console.print(certificate.sentence(), highlight=False)


def _gap(state: Certificate | None) -> str:
    if state is None or state.withdrawn or state.epsilon_proven is None:
        return ""
    volume = ""
    if state.hypervolume_outer:
        volume = f", hypervolume {state.hypervolume_inner / state.hypervolume_outer:.3f} of what is possible"
    if state.finite_gap is None:
        return f"nothing proven yet, {state.open:,} designs open"
    return f"proven to {state.finite_gap:.1%}, {state.open:,} designs open{volume}"


def _costs(low: Study, high: Study) -> str:
    if not low.trials or not high.trials:
        return "no cost known yet"
    ratio = (sum(t.seconds for t in low.trials) / len(low.trials)) / max(
        1e-9, sum(t.seconds for t in high.trials) / len(high.trials)
    )
    return f"one took {ratio:.2g} of the time of a high-fidelity one"


def _owner(claim: Claim) -> str:
    return "a trial given back" if claim.owner is None else f"trial {claim.number} of {owner_label(claim.owner)}"


def finish(study: Study, out: Path, console: Console) -> None:
    """Write the report and print the front."""
    from codesign.report.study_page import write_report

    print_front(study, console)
    curve_reference = study.reference_point()
    if curve_reference is not None:
        hypervolume = hypervolume_curve(study.values(study.trials), curve_reference)[-1]
        reference = figures_text(curve_reference, study.objectives)
        console.print(f"hypervolume {hypervolume:.4f} decades^{len(study.objectives)}, reference point ({reference})")
    budget = MACHINE_SHARE * sum(trial.seconds for trial in study.trials)
    path = write_report(study, machine_seconds=budget if budget >= LEAST_SECONDS else 0.0)
    console.print(f"report: {path}")
    assert path == out / REPORT_FILE


def print_front(study: Study, console: Console) -> None:
    """Print the front, and which of its designs to look at first."""
    from codesign.report.recommend import constant_objectives, figures_of, recommendations

    console.print(front_table(study))
    for found in recommendations(study):
        console.print(f"trial {found.trial.number}, {', '.join(found.roles)}: {found.why}", highlight=False)
    for sentence in constant_objectives(study):
        console.print(sentence, highlight=False)
    for sentence in figures_of(study):
        console.print(f"figures: {sentence}", highlight=False)


def front_table(study: Study) -> Table:
    """The front as a table: metrics first (objectives starred), then parameters."""
    front = study.front()
    usual = [f for f in ("latency_s", "energy_j", "power_w", "area_mm2") if f in UNITS]
    shown = [*usual, *(o for o in study.objectives if o not in usual)]
    heads = [f"{o.rsplit('_', 1)[0]}{'*' if o in study.objectives else ''}>" for o in shown]
    title = f"Pareto front: {len(front)} of {counted(len(study.trials), 'design')}"
    table = make_table(title, "trial>", *heads, "design~")
    for trial in front:
        figures = [format_si(trial.metrics[f], unit_of(f)) for f in shown]
        table.add_row(
            str(trial.number),
            *figures,
            " ".join(f"{k}={v}" for k, v in trial.point.items()),
        )
    if not front:
        table.caption = _why_empty(study)
    return table


def timed_table(run: StudyRun) -> Table:
    """The front under both models: cycles, what makes the difference, whether the design stays on the front."""
    title = f"The front event-timed; of the slowest layer, what is busiest and what it waits for ({TIMING_FILE})"
    heads = ("trial>", "analytical cycles>", "event cycles>", "more>", "busiest~", "waits for~", "kept~")
    table = make_table(title, *heads)
    for design in run.timed:
        network = design.network
        more = f"{network.latency_cycles / network.analytic_cycles - 1:+.1%}"
        cycles = (f"{network.analytic_cycles:,.0f}", f"{network.latency_cycles:,.0f}")
        slowest = network.slowest.run
        kept = "yes" if design.on_front else "no"
        table.add_row(str(design.trial), *cycles, more, slowest.bound_by, slowest.waits_for, kept)
    return table


def contended_table(run: StudyRun) -> Table:
    """The front of systems of many cores under both models, and whether each design stays on it."""
    heads = ("trial>", "analytical cycles>", "simulated cycles>", "more>", "kept>")
    table = make_table(f"The front on routers and DRAM queues ({CONTENTION_FILE})", *heads)
    for design in run.contended:
        more = f"{design.simulated / design.analytic - 1:+.1%}"
        cycles = (f"{design.analytic:,.0f}", f"{design.simulated:,.0f}")
        table.add_row(str(design.trial), *cycles, more, "yes" if design.on_front else "no")
    return table


def _why_empty(study: Study) -> str:
    """What keeps every design from the front: resources that were too small, bounds that no trial kept."""
    reasons = sorted({t.reason for t in study.trials if t.infeasible})
    parts = ["designs without a valid mapping or schedule: " + "; ".join(reasons)] if reasons else []
    judged = [t for t in study.trials if not t.infeasible]
    for bound in study.constraints if judged else ():
        kept = sum(bound.kept_by(t.metrics) for t in judged)
        parts.append(f"{bound} kept by {kept} of {len(judged)}")
    return "; ".join(parts)


def _note(study: Study, trial: Trial) -> str:
    if trial.infeasible is not None:
        return f"last: infeasible ({trial.reason})"
    return "last: " + figures_text([trial.metrics[o] for o in study.objectives], study.objectives)
