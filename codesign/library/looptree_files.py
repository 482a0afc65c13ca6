"""AccelForge's files under LoopTree's rules: read, mapped with a proof, certified."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject

if TYPE_CHECKING:
    from codesign.formats.accelforge import Workload
    from codesign.mapping.looptree import Goal


@final
@dataclass(frozen=True)
class UnevenSearch:
    """How a nest under LoopTree's rules is searched.

    Args:
        objective: ``energy``, ``latency`` or ``edp``.
        time_limit_s: Seconds of search.
        imperfect: Whether the last iteration of a loop may be shorter.
        certify: Whether a certificate is made.
    """

    objective: str = "edp"
    time_limit_s: float | None = None
    imperfect: bool = False
    certify: bool = False


def map_accelforge(files: Sequence[str], search: UnevenSearch) -> tuple[dict[str, Any], JsonObject | None]:
    """The best mapping of a workload's operators as a document, and its certificate where one is asked for.

    Args:
        files: Architecture and workload, in any order.
        search: How.

    Raises:
        UserError: A file is missing or not AccelForge's, or something in it is not supported.
    """
    from codesign.formats.accelforge import Costs, machines
    from codesign.mapping.looptree import Goal

    arch, workload = read_files(files)
    options = [machines(arch, workload, i, Costs()) for i in range(len(workload.operators))]
    goal = Goal(search.objective)
    limit = math.inf if search.time_limit_s is None else search.time_limit_s
    started = time.process_time()
    proof: JsonObject | None = None
    if len(options) > 1:
        if search.imperfect or search.certify:
            raise UserError("--imperfect and --certificate work on one operator", where=", ".join(files))
        document = _fused(workload, options, goal, limit)
    else:
        document, proof = _single(workload, options[0], goal, search, limit)
    document |= {"objective": goal.value, "semantics": "accelforge", "cpu_seconds": time.process_time() - started}
    return document, proof


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
    workload: "Workload", options: Sequence[Any], goal: "Goal", search: UnevenSearch, limit: float
) -> tuple[dict[str, Any], JsonObject | None]:
    from codesign.mappers.uneven.nest import lines, nest_of
    from codesign.mappers.uneven.search import solve
    from codesign.mapping.looptree import Factors

    (operator,) = workload.operators
    answers = [(m, solve(operator, m, goal, Factors(search.imperfect, search.imperfect), limit)) for m in options]
    machine, found = min(answers, key=lambda a: a[1].value)
    if found.case is None:
        smallest = min((v for v in machine.memories[1:] if math.isfinite(v.capacity)), key=lambda v: v.capacity)
        raise UserError(
            f"no mapping fits: every level must hold one element of each tensor it keeps; the smallest, '{smallest.name}', holds {smallest.capacity:g} bits"
        )
    nest = nest_of(found.case, found.placed)
    proof = None
    if search.certify:
        if search.imperfect:
            raise UserError("--certificate works with perfect factors only")
        proof = _certificate(operator, machine, goal, found)
    bound = min(a.bound for _, a in answers)
    document = {
        "value": found.value,
        "energy_j": found.energy + machine.leak_w * found.seconds,
        "latency_s": found.seconds,
        **_proof(found.value, bound),
        "nest": lines(nest, machine),
    }
    return document, proof


def _certificate(operator: Any, machine: Any, goal: "Goal", found: Any) -> JsonObject:
    from codesign.mappers.uneven.claims import certify
    from codesign.verify import certificate

    return certificate(certify(operator, machine, goal, found))


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
