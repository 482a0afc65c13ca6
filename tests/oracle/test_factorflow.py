"""FactorFlow's rules against its recorded mappings, and the search under them against every mapping of small products."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.core.errors import UserError
from experiments.factorflow_rules import (
    Fanout,
    LevelLoops,
    Machine,
    Memory,
    Sizes,
    evaluate,
    read_machines,
    read_recorded,
)
from experiments.factorflow_search import divisors, layouts, solve

DATA = Path(__file__).parents[1] / "data" / "factorflow"
FREE = (None, None, None)


def test_recorded_mappings_cost_what_was_recorded() -> None:
    machines = read_machines(DATA)
    for run in read_recorded(DATA):
        assert run.loops is not None
        found = evaluate(machines[run.machine], run.sizes, run.loops)
        assert found.energy_pj == pytest.approx(run.figures.energy_pj, rel=1e-12), (run.machine, run.name)
        assert found.latency_cycles == run.figures.latency_cycles
        assert found.utilisation == run.figures.utilisation


def drawn(seed: int) -> tuple[Machine, Sizes]:
    """A machine of two to four memories and up to two fan-outs, any bypasses, sizes, rates, fixed loops and orders."""
    rng = np.random.default_rng(seed)
    sizes = tuple(int(rng.choice([1, 2, 3, 4, 6])) for _ in range(3))
    levels: list[Memory | Fanout] = []
    for v in range(int(rng.integers(2, 4))):
        holds = [True] * 3 if v == 0 else [bool(rng.random() < 0.6) for _ in range(3)]
        order = tuple(str(d) for d in rng.permutation(["M", "K", "N"])) if rng.random() < 0.2 else ()
        fixed = (None, None, int(rng.choice([1, 2]))) if v and rng.random() < 0.2 else FREE
        levels.append(
            Memory(
                f"m{v}",
                None if v == 0 else float(rng.integers(2, 24)),
                (holds[0], holds[1], holds[2]),
                *(float(x) * 4.0 ** (2 - v) for x in rng.uniform(0.2, 2.0, 2)),
                *(float(x) for x in rng.choice([0.5, 1.0, 4.0], 2)),
                fixed,
                order,
            )
        )
        if rng.random() < 0.5:
            allowed = tuple(bool(rng.random() < 0.6) for _ in range(3))
            levels.append(Fanout(f"f{v}", int(rng.choice([2, 4])), (allowed[0], allowed[1], allowed[2]), FREE))
    return Machine("drawn", tuple(levels), 0.3, 1.0), (sizes[0], sizes[1], sizes[2])


def least(machine: Machine, sizes: Sizes, by_use: bool) -> float:
    """Of every mapping: all layouts, factors and innermost loops."""
    best = math.inf
    memories = [v for v, m in enumerate(machine.levels) if isinstance(m, Memory)]
    for space in layouts(machine, sizes):
        left = [n // math.prod(f[d] for f in space.values()) for d, n in enumerate(sizes)]
        splits = [list(_splits(n, len(memories))) for n in left]
        for choice in itertools.product(*splits):
            rows = [LevelLoops(space.get(v, (1, 1, 1))) for v in range(len(machine.levels))]
            options = []
            for i, v in enumerate(memories):
                factors = (choice[0][i], choice[1][i], choice[2][i])
                options.append([(v, LevelLoops(factors, d)) for d in _innermost(machine.levels[v], factors)])
            chosen = [(choice[0][i], choice[1][i], choice[2][i]) for i in range(len(memories))]
            if not all(_obeys(machine.levels[v], f) for v, f in zip(memories, chosen, strict=True)):
                continue
            for loops in itertools.product(*options):
                for v, row in loops:
                    rows[v] = row
                try:
                    found = evaluate(machine, sizes, tuple(rows))
                except UserError:
                    continue
                best = min(best, found.energy_pj * found.latency_cycles / (found.utilisation if by_use else 1.0))
    return best


def _splits(n: int, parts: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(n,)]
    return [(f, *rest) for f in divisors(n) for rest in _splits(n // f, parts - 1)]


def _innermost(level: Memory | Fanout, factors: Sizes) -> list[int | None]:
    assert isinstance(level, Memory)
    grown: list[int | None] = [d for d in range(3) if factors[d] > 1]
    if not grown:
        return [None]
    if level.order:
        return [[d for d in (["M", "K", "N"].index(x) for x in level.order) if factors[d] > 1][-1]]
    return grown


def _obeys(level: Memory | Fanout, factors: Sizes) -> bool:
    return all(f is None or factors[d] == f for d, f in enumerate(level.fixed))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.thinned(4)
def test_the_search_finds_the_least_of_all_mappings(seed: int) -> None:
    machine, sizes = drawn(seed)
    if any(f is not None and sizes[2] % f for v in machine.levels for f in v.fixed):
        machine = replace(
            machine, levels=tuple(replace(v, fixed=FREE) if isinstance(v, Memory) else v for v in machine.levels)
        )
    for by_use in (True, False):
        expected = least(machine, sizes, by_use)
        found = solve(machine, sizes, by_use=by_use)
        if math.isinf(expected):
            assert found.loops is None
            continue
        assert found.proven and found.value == pytest.approx(expected, rel=1e-9), seed


def test_a_search_without_time_says_that_nothing_is_proven() -> None:
    machine = read_machines(DATA)["simba"]
    found = solve(machine, (64, 64, 64), by_use=True, time_limit_s=0.0)
    assert not found.proven


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("architectures.json", "[", "no machines could be read"),
        ("architectures.json", '{"a": [{"type": "MemLevel"}]}', "the last level is no ComputeLevel"),
        ("mappings.jsonl", '{"arch": "simba"}', "no mappings could be read"),
    ],
)
def test_files_of_another_form_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        (read_machines if name.startswith("arch") else read_recorded)(tmp_path)
