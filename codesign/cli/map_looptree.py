"""`codesign map --semantics accelforge`: exact uneven and fused mappings under LoopTree's rules, from AccelForge's files."""

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.cli.map_options import MapSearch
    from codesign.cli.whole_network import Output
    from codesign.formats.accelforge import Workload
    from codesign.mapping.looptree import Goal


def map_looptree(files: Sequence[str], search: "MapSearch", output: "Output") -> None:
    """Find, print and write the best mapping of a workload's operators.

    Raises:
        UserError: A file is missing or not AccelForge's, or something in it is not supported.
    """
    from codesign.formats.accelforge import Costs, machines
    from codesign.mapping.looptree import Goal

    arch, workload = read_files(files)
    options = [machines(arch, workload, i, Costs()) for i in range(len(workload.operators))]
    goal = Goal(search.goal.value)
    limit = math.inf if search.time_limit is None else search.time_limit
    started = time.process_time()
    if len(options) > 1:
        if search.imperfect or search.certificate is not None:
            raise UserError("--imperfect and --certificate work on one operator", where=", ".join(files))
        document = _fused(workload, options, goal, limit)
    else:
        document = _single(workload, options[0], goal, search.imperfect, limit, search.certificate)
    document |= {"objective": goal.value, "semantics": "accelforge", "cpu_seconds": time.process_time() - started}
    if output.out is not None:
        from codesign.core.files import write_atomic

        write_atomic(output.out, json.dumps(document, indent=1) + "\n")
    if output.as_json:
        typer.echo(json.dumps(document, indent=1))
        return
    for line in document.get("nest", ()):
        typer.echo(line)
    energy = "" if document["energy_j"] is None else f"energy {document['energy_j']:.9g} J, "
    typer.echo(f"{energy}latency {document['latency_s']:.9g} s, {goal.value} {document['value']:.9g}")
    typer.echo(f"proof: {document['proof']}, gap {document['gap']:.3%}, {document['cpu_seconds']:.3f} CPU s")


def read_files(files: Sequence[str]) -> tuple[dict[str, Any], "Workload"]:
    """Architecture and workload, in any order.

    Raises:
        UserError: One of them is missing.
    """
    from codesign.formats.accelforge import load, read_workload

    arch: dict[str, Any] | None = None
    workload: dict[str, Any] | None = None
    for name in files:
        path = Path(name)
        if not path.is_file():
            raise UserError(f"file '{name}' does not exist")
        document = load(path.read_text(), folders=(path.resolve().parent,))
        if isinstance(document, dict) and "arch" in document:
            arch = document["arch"]
        if isinstance(document, dict) and "workload" in document:
            workload = document
    if arch is None or workload is None:
        missing = "'arch'" if arch is None else "'workload'"
        raise UserError(
            f"no file has the key {missing}",
            where=", ".join(files) or "no files given",
            hint="--semantics accelforge reads AccelForge's architecture and workload files",
        )
    return arch, read_workload(workload)


def _single(
    workload: "Workload", options: Sequence[Any], goal: "Goal", imperfect: bool, limit: float, certificate: Path | None
) -> dict[str, Any]:
    from codesign.mappers.uneven.nest import lines, nest_of
    from codesign.mappers.uneven.search import solve
    from codesign.mapping.looptree import Factors

    (operator,) = workload.operators
    answers = [(m, solve(operator, m, goal, Factors(imperfect, imperfect), limit)) for m in options]
    machine, found = min(answers, key=lambda a: a[1].value)
    if found.case is None:
        smallest = min((v for v in machine.memories[1:] if math.isfinite(v.capacity)), key=lambda v: v.capacity)
        raise UserError(
            f"no mapping fits: every level must hold one element of each tensor it keeps; the smallest, '{smallest.name}', holds {smallest.capacity:g} bits"
        )
    nest = nest_of(found.case, found.placed)
    if certificate is not None:
        if imperfect:
            raise UserError("--certificate works with perfect factors only")
        _write_certificate(certificate, operator, machine, goal, found)
    bound = min(a.bound for _, a in answers)
    return {
        "value": found.value,
        "energy_j": found.energy + machine.leak_w * found.seconds,
        "latency_s": found.seconds,
        **_proof(found.value, bound),
        "nest": lines(nest, machine),
    }


def _write_certificate(path: Path, operator: Any, machine: Any, goal: "Goal", found: Any) -> None:
    from codesign.core.files import write_atomic
    from codesign.mappers.uneven.claims import certify
    from codesign.verify import certificate

    write_atomic(path, json.dumps(certificate(certify(operator, machine, goal, found)), indent=1) + "\n")


def _fused(workload: "Workload", options: Sequence[Any], goal: "Goal", limit: float) -> dict[str, Any]:
    from codesign.scheduling.fused.loop_tree import schedule

    found = schedule(workload, options, goal, 1, math.inf, limit)
    if math.isinf(found.value):
        raise UserError("no schedule was found", hint="give a longer --time-limit")
    return {
        "value": found.value,
        "energy_j": found.energy,
        "latency_s": found.seconds,
        **_proof(found.value, found.bound),
        "nest": found.lines(),
    }


def _proof(value: float, bound: float) -> dict[str, Any]:
    gap = max(0.0, value / bound - 1) if bound > 0 else 0.0
    return {"bound": bound, "proof": "optimal" if gap <= 1e-9 else "gap", "gap": gap}
