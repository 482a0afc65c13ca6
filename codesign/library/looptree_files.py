"""AccelForge's files under LoopTree's rules: read, mapped with a proof, certified."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from codesign.arch.provenance import provenance_json
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject

if TYPE_CHECKING:
    from codesign.formats.accelforge import Workload
    from codesign.library.map_options import MapOptions
    from codesign.mapping.looptree import Goal


@final
@dataclass(frozen=True)
class FoundNest:
    """The best nest of a workload's operators.

    Args:
        objective: What was minimised.
        value: Of the objective.
        energy_j: Of one run, leakage included where the file gives it; None where it is not known.
        latency_s: Of one run.
        bound: No nest has a smaller value, as far as proven.
        lines: The nest, a loop or a storage node each.
        cpu_seconds: Of the search.
    """

    objective: str
    value: float
    energy_j: float | None
    latency_s: float
    bound: float
    lines: tuple[str, ...]
    cpu_seconds: float = 0.0

    @property
    def gap(self) -> float:
        """How far the value may lie above the best, as a share."""
        return max(0.0, self.value / self.bound - 1) if self.bound > 0 else 0.0

    @property
    def proof(self) -> str:
        """``optimal`` or ``gap``."""
        return "optimal" if self.gap <= 1e-9 else "gap"

    def to_json(self) -> JsonObject:
        """In the form of ``--format json``."""
        return {
            "value": self.value,
            "energy_j": self.energy_j,
            "latency_s": self.latency_s,
            "bound": self.bound,
            "proof": self.proof,
            "gap": self.gap,
            "nest": list(self.lines),
            "objective": self.objective,
            "semantics": "accelforge",
            "cpu_seconds": self.cpu_seconds,
            "provenance": provenance_json(None, ()),
        }


def map_accelforge(
    files: Sequence[str], options: "MapOptions", *, certify: bool = False
) -> tuple[FoundNest, JsonObject | None]:
    """The best nest of a workload's operators, and its certificate where one is asked for.

    Args:
        files: Architecture and workload, in any order.
        options: How; objective, time and whether the last iteration of a loop may be shorter are read.
        certify: Whether a certificate is made.

    Raises:
        UserError: A file is missing or not AccelForge's, or something in it is not supported.
    """
    from codesign.formats.accelforge import Costs, machines
    from codesign.mapping.looptree import Goal

    arch, workload = read_files(files)
    by_operator = [machines(arch, workload, i, Costs()) for i in range(len(workload.operators))]
    goal = Goal(options.goal.value)
    limit = math.inf if options.time_limit_s is None else options.time_limit_s
    started = time.process_time()
    proof: JsonObject | None = None
    if len(by_operator) > 1:
        if options.imperfect or certify:
            raise UserError("--imperfect and --certificate work on one operator", where=", ".join(files))
        found = _fused(workload, by_operator, goal, limit)
    else:
        found, proof = _single(workload, by_operator[0], goal, limit, imperfect=options.imperfect, certify=certify)
    return replace(found, cpu_seconds=time.process_time() - started), proof


def read_files(files: Sequence[str]) -> tuple[dict[str, Any], "Workload"]:
    """Architecture and workload, in any order.

    Raises:
        UserError: One of them is missing.
    """
    from codesign.formats.accelforge import load, read_workload

    found: dict[str, dict[str, Any]] = {}
    for name in files:
        path = Path(name)
        if not path.is_file():
            raise UserError(f"file '{name}' does not exist")
        document = load(path.read_text(), folders=(path.resolve().parent,))
        if isinstance(document, dict):
            found |= {part: document for part in ("arch", "workload") if document.get(part) is not None}
    for part in ("arch", "workload"):
        if part not in found:
            raise UserError(
                f"no file has the key '{part}'",
                where=", ".join(files) or "no files given",
                hint="--semantics accelforge reads AccelForge's architecture and workload files",
            )
    return found["arch"]["arch"], read_workload(found["workload"])


def _single(
    workload: "Workload", choices: Sequence[Any], goal: "Goal", limit: float, *, imperfect: bool, certify: bool
) -> tuple[FoundNest, JsonObject | None]:
    from codesign.mappers.uneven.nest import lines, nest_of
    from codesign.mappers.uneven.search import solve
    from codesign.mapping.looptree import Factors

    (operator,) = workload.operators
    answers = [(m, solve(operator, m, goal, Factors(imperfect, imperfect), limit)) for m in choices]
    machine, found = min(answers, key=lambda a: a[1].value)
    if found.case is None:
        smallest = min((v for v in machine.memories[1:] if math.isfinite(v.capacity)), key=lambda v: v.capacity)
        raise UserError(
            f"no mapping fits: every level must hold one element of each tensor it keeps; the smallest, '{smallest.name}', holds {smallest.capacity:g} bits"
        )
    nest = nest_of(found.case, found.placed)
    proof = None
    if certify:
        if imperfect:
            raise UserError("--certificate works with perfect factors only")
        proof = _certificate(operator, machine, goal, found)
    bound = min(a.bound for _, a in answers)
    energy_j = found.energy + machine.leak_w * found.seconds
    return FoundNest(goal.value, found.value, energy_j, found.seconds, bound, tuple(lines(nest, machine))), proof


def _certificate(operator: Any, machine: Any, goal: "Goal", found: Any) -> JsonObject:
    from codesign.mappers.uneven.claims import certify
    from codesign.verify import certificate

    return certificate(certify(operator, machine, goal, found))


def _fused(workload: "Workload", options: Sequence[Any], goal: "Goal", limit: float) -> FoundNest:
    from codesign.scheduling.fused.loop_tree import schedule

    found = schedule(workload, options, goal, 1, math.inf, limit)
    if math.isinf(found.value):
        raise UserError("no schedule was found", hint="give a longer --time-limit")
    return FoundNest(goal.value, found.value, found.energy, found.seconds, found.bound, tuple(found.tree()))
