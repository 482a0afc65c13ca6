"""What threads bring to the exact mapper: `python -m experiments.threads --study reference|presets`.

Every layer of ResNet-50 that takes half a CPU second or more with free keep sets, on the Simba of the reference data or the
preset `simba`: CPU seconds with one thread and with several, the share of them outside the threads, and how much faster the
search is by the wall. Beside it stands what as many independent loops gain at the same moment: all that the machine leaves.
Layers that are not proven within the limit are left out.
"""

import hashlib
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from codesign.core.goals import Budget, Objective, Proof
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.load import load_network
from experiments.exact import Config, machines
from experiments.mappers_common import csv_of, save
from experiments.options import head_parser

_LEAST, _LOOPS = 0.5, 500_000


@dataclass(frozen=True)
class Row:
    """One layer.

    Args:
        machine: The architecture.
        layer: Its name.
        objective: What was minimised.
        cpu_s: With one thread.
        cpu_s_threads: With several.
        serial: Share of the latter that the main thread spent.
        speed: Seconds by the wall with one thread over those with several.
        cores: The same of independent loops, before and after.
    """

    machine: str
    layer: str
    objective: str
    cpu_s: float
    cpu_s_threads: float
    serial: float
    speed: float
    cores: float


@dataclass(frozen=True)
class Spent:
    """Seconds by the wall, of CPU, of CPU on the main thread; whether the optimum was proven."""

    wall: float
    cpu: float
    main: float
    proven: bool


def cores(threads: int) -> float:
    """How many times as fast as one after the other independent loops run side by side now."""

    def loop(_: int) -> None:
        hashlib.pbkdf2_hmac("sha256", b"", b"", _LOOPS)

    started = time.perf_counter()
    loop(0)
    alone = time.perf_counter() - started
    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        list(pool.map(loop, range(threads)))
    return threads * alone / (time.perf_counter() - started)


def search(problem: MappingProblem, objective: Objective, threads: int, limit: float) -> Spent:
    """One search."""
    wall, cpu, main = time.perf_counter(), time.process_time(), time.thread_time()
    found = ExactMapper(threads=threads).map(problem, objective, budget=Budget(time_limit_s=limit), seed=0)
    spent = (time.perf_counter() - wall, time.process_time() - cpu, time.thread_time() - main)
    return Spent(*spent, found.proof is Proof.OPTIMAL)


def measure(config: Config, threads: int) -> list[Row]:
    """All layers that take long enough."""
    rows = []
    groups = load_network(config.network, partial_bits=config.partial_bits).distinct_layers()
    for architecture, constraints in machines(config):
        for name in config.objectives:
            for group in groups:
                problem, objective = MappingProblem(group.computation, architecture, constraints), Objective.parse(name)
                if not search(problem, objective, 1, config.time_limit).proven:  # it warms caches too
                    continue
                alone, before = search(problem, objective, 1, config.time_limit), cores(threads)
                if alone.cpu < _LEAST and not config.smoke:
                    continue
                several, after = search(problem, objective, threads, config.time_limit), cores(threads)
                measured = alone.cpu, several.cpu, several.main / several.cpu, alone.wall / several.wall
                figures = (round(x, 3) for x in (*measured, (before + after) / 2.0))
                rows.append(Row(architecture.name, group.computation.name or "", name, *figures))
                if config.smoke:
                    return rows
    return rows


def main(arguments: list[str] | None = None) -> list[Row]:
    """Measure and write results."""
    parser = head_parser(__doc__, out=Path("results/threads"), smoke="one layer, to see that everything runs")
    parser.add_argument("--study", choices=("reference", "presets"), default="presets")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds for each search")
    parser.add_argument("--data", type=Path, default=Config().data, help="folder of the reference data")
    given = parser.parse_args(arguments)
    config = Config(given.study, presets=("simba",), data=given.data, free_bypass=True, time_limit=given.time_limit, smoke=given.smoke)  # fmt: skip
    rows = measure(config, given.threads)
    table = csv_of(rows, Row)
    save(given.out, config, {"rows": [vars(row) for row in rows]}, table)
    print(table)
    shares = [row.speed / row.cores for row in rows]
    print(f"median share of what the machine leaves: {statistics.median(shares):.2f}, work added: {statistics.median(row.cpu_s_threads / row.cpu_s for row in rows) - 1.0:.1%}")  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
