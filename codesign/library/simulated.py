"""A simulated run as a record."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codesign.hardware.execute import Job, Verdict
    from codesign.study.built import RunRecord


def run_record(job: "Job", verdict: "Verdict", simulator: str) -> "tuple[RunRecord, str | None]":
    """A run beside what it should give, and the first mismatch.

    Args:
        job: What was run.
        verdict: What came of it.
        simulator: Its name.
    """
    failed = None
    if verdict.wrong is not None:
        at, address, got, wanted = verdict.wrong
        failed = (
            f"element {list(at)} at DRAM address {address:#x}, written in cycle {verdict.wrong_cycle}, is {got}, wanted {wanted} "
            f"({verdict.wrong_elements} differ after {verdict.run.cycles} cycles)"
        )
    elif verdict.differences:
        d = verdict.differences[0]
        failed = f"{d.kind} of {d.tensor} at {d.memory}: hardware {d.hardware}, model {d.model}"
    return {
        "simulator": simulator,
        "bit_equal": verdict.wrong is None,
        "dram_equal": not verdict.dram_differences,
        "accesses_equal": not verdict.differences,
        "cycles": verdict.run.cycles,
        "predicted_cycles": job.predicted_cycles,
        "seconds": verdict.run.seconds,
        "cycles_per_second": round(verdict.run.cycles / max(verdict.run.seconds, 1e-9)),
    }, failed
