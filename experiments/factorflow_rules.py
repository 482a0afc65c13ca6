"""FactorFlow's machines and rules of cost (EMJzero/FactorFlow, MIT), in this project's words and code.

Out[M,N] = W[M,K] In[K,N]. A level is a memory, or a fan-out to the levels inside. Every operand is sent from one memory that holds it, the
*giver*, to the next one inside that does, the *taker*, or to the MAC. With o the iterations of the dimension that does not index the operand
(M for In, N for W, K for Out) inside the taker, s those laid out in space between the two, and MKN all iterations, the giver sends
``MKN / (o s saved)`` values. `saved` is the loop over that dimension at the first memory between them, counted from the taker, with any loop above
1, if it is that memory's innermost loop above 1; else 1. The memory next to the MAC saves nothing.
Outputs come up as often, and go down that often less once for every output and instance of the giver. What is sent is written once for every
instance of the taker. The taker reads an output for everything the giver writes of it, what fills the giver from further out included.
Latency is the largest of iterations and, for every memory, values read or written by one instance over its bandwidth.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from codesign.core.errors import UserError

DIMS = ("M", "K", "N")
OPERANDS = ("in", "w", "out")
INDEXED: dict[str, tuple[str, str]] = {"in": ("K", "N"), "w": ("M", "K"), "out": ("M", "N")}
ACROSS = (0, 2, 1)
"""Of every operand the dimension that does not index it, in `DIMS`."""

Sizes = tuple[int, int, int]
"""A factor for each of `DIMS`."""


@final
@dataclass(frozen=True)
class Memory:
    """A memory level.

    Args:
        name: Its name.
        size: Values it holds, over how often it is buffered; None without end.
        holds: Whether it holds each of `OPERANDS`.
        read_pj: Of one value.
        write_pj: Of one value.
        read_rate: Values a cycle and instance.
        write_rate: Values written a cycle and instance.
        fixed: Loops that are given, by dimension; None where free.
        order: Its dimensions from outer to inner where that is given.
    """

    name: str
    size: float | None
    holds: tuple[bool, bool, bool]
    read_pj: float
    write_pj: float
    read_rate: float
    write_rate: float
    fixed: tuple[int | None, int | None, int | None]
    order: tuple[str, ...]


@final
@dataclass(frozen=True)
class Fanout:
    """Copies of everything inside.

    Args:
        name: Its name.
        mesh: How many at most.
        dims: Which dimensions may be laid out.
        fixed: Factors that are given.
    """

    name: str
    mesh: int
    dims: tuple[bool, bool, bool]
    fixed: tuple[int | None, int | None, int | None]


@final
@dataclass(frozen=True)
class Machine:
    """Levels from outside in.

    Args:
        name: Of the machine.
        levels: Memories and fan-outs.
        mac_pj: Of a multiply-accumulate.
        mac_cycles: Cycles of a multiply-accumulate.
    """

    name: str
    levels: tuple[Memory | Fanout, ...]
    mac_pj: float
    mac_cycles: float

    @property
    def mesh(self) -> int:
        """MACs in all."""
        total = 1
        for level in self.levels:
            total *= level.mesh if isinstance(level, Fanout) else 1
        return total


@final
@dataclass(frozen=True)
class LevelLoops:
    """What a mapping does at one level.

    Args:
        factors: Iterations of each of `DIMS`.
        innermost: Which dimension's loop above 1 is innermost, in `DIMS`; None without one.
    """

    factors: Sizes
    innermost: int | None = None


@final
@dataclass(frozen=True)
class Figures:
    """What a mapping costs.

    Args:
        energy_pj: In all.
        latency_cycles: In all.
        utilisation: Share of the MACs in use.
    """

    energy_pj: float
    latency_cycles: float
    utilisation: float

    @property
    def edp(self) -> float:
        """In J x cycles."""
        return self.energy_pj * 1e-12 * self.latency_cycles

    @property
    def goal(self) -> float:
        """What FactorFlow minimises, up to a constant of the problem: the product over the share of MACs in use."""
        return self.edp / self.utilisation


def read_machines(folder: Path) -> dict[str, Machine]:
    """The machines of ``architectures.json``.

    Raises:
        UserError: The file is missing or of another form.
    """
    path = folder / "architectures.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {name: _machine(name, levels) for name, levels in document.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"no machines could be read: {type(error).__name__} {error}", where=str(path)) from error


def _machine(name: str, levels: list[dict[str, Any]]) -> Machine:
    compute = levels[-1]
    if compute["type"] != "ComputeLevel":
        raise ValueError("the last level is no ComputeLevel")
    found = tuple(_memory(v) if v["type"] == "MemLevel" else _fanout(v) for v in levels[:-1])
    if not isinstance(found[0], Memory):
        raise ValueError("the first level is no memory")
    return Machine(name, found, float(compute["compute_energy"]), float(compute["cycles"]))


def _fixed(level: dict[str, Any]) -> tuple[int | None, int | None, int | None]:
    given = level.get("factors_constraints", {})
    unknown = set(given) - set(DIMS)
    if unknown:
        raise ValueError(f"a constraint on {sorted(unknown)[0]!r} is not known")
    values = [given.get(d) for d in DIMS]
    return (values[0], values[1], values[2])


def _memory(level: dict[str, Any]) -> Memory:
    if level.get("leakage_energy"):
        raise ValueError(f"leakage of level {level['name']!r} is not covered")
    buffered = float(level.get("multiple_buffering", 1))
    size = level["size"]
    holds = [t not in level.get("bypasses", ()) for t in OPERANDS]
    return Memory(
        str(level["name"]),
        None if size is None else float(size) / buffered,
        (holds[0], holds[1], holds[2]),
        float(level["read_access_energy"]),
        float(level["write_access_energy"]),
        float(level["read_bandwidth"]),
        float(level["write_bandwidth"]),
        _fixed(level),
        tuple(level.get("dataflow_constraints", ())),
    )


def _fanout(level: dict[str, Any]) -> Fanout:
    if level["type"] != "FanoutLevel":
        raise ValueError(f"a level of type {level['type']!r} is not covered")
    if (
        level.get("pe_to_pe")
        or not level.get("spatial_multicast_support", True)
        or not level.get("spatial_reduction_support", True)
    ):
        raise ValueError(f"fan-out {level['name']!r}: links between units, or none that share, are not covered")
    allowed = [d in level["dims"] for d in DIMS]
    return Fanout(str(level["name"]), int(level["mesh"]), (allowed[0], allowed[1], allowed[2]), _fixed(level))


@final
@dataclass(frozen=True)
class Recorded:
    """A recorded mapping and its figures.

    Args:
        machine: Its name.
        name: Of the product.
        sizes: M, K, N.
        loops: By level; None where only figures are recorded.
        figures: As recorded.
        cpu_seconds: Of the search.
    """

    machine: str
    name: str
    sizes: Sizes
    loops: tuple[LevelLoops, ...] | None
    figures: Figures
    cpu_seconds: float


def read_recorded(folder: Path) -> list[Recorded]:
    """The rows of ``mappings.jsonl``.

    Raises:
        UserError: The file is missing or of another form.
    """
    path = folder / "mappings.jsonl"
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        return [_recorded(row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"no mappings could be read: {type(error).__name__} {error}", where=str(path)) from error


def _recorded(row: dict[str, Any]) -> Recorded:
    loops = None
    if row.get("mapping"):
        loops = tuple(_loops(level) for level in row["mapping"] if level["type"] != "ComputeLevel")
    figures = Figures(
        float(row["energy_uJ"]) * 1e6, float(row["latency_cycles"]), float(row.get("spatial_utilization", 1.0))
    )
    sizes = (int(row["M"]), int(row["K"]), int(row["N"]))
    return Recorded(str(row["arch"]), str(row["computation"]), sizes, loops, figures, float(row["cpu_s"]))


def _loops(level: Mapping[str, Any]) -> LevelLoops:
    factors = tuple(int(level["factors"].get(d, 1)) for d in DIMS)
    inner = [DIMS.index(d) for d in level["order_outer_to_inner"] if level["factors"].get(d, 1) > 1]
    return LevelLoops((factors[0], factors[1], factors[2]), inner[-1] if inner else None)


def evaluate(machine: Machine, sizes: Sizes, loops: tuple[LevelLoops, ...]) -> Figures:
    """What a mapping costs, level by level as the rules above say it.

    Raises:
        UserError: Factors do not multiply to the sizes, or a memory overflows.
    """
    n = len(machine.levels)
    tile = [[1, 1, 1] for _ in range(n + 1)]  # inside each level, its own loops included
    for level in range(n - 1, -1, -1):
        tile[level] = [a * b for a, b in zip(tile[level + 1], loops[level].factors, strict=True)]
    if tuple(tile[0]) != sizes:
        raise UserError(f"the factors multiply to {tuple(tile[0])}, the product is {sizes}")
    reads, writes = [0.0] * n, [0.0] * n
    for t in range(3):
        _send(machine, sizes, loops, tile, t, reads, writes)
    energy, latency = machine.mac_pj * float(sizes[0] * sizes[1] * sizes[2]), 0.0
    used, instances = 1, 1
    for level, item in enumerate(machine.levels):
        if isinstance(item, Fanout):
            count = loops[level].factors[0] * loops[level].factors[1] * loops[level].factors[2]
            instances, used = instances * count, used * count
            continue
        _check_size(item, tile[level])
        energy += reads[level] * item.read_pj + writes[level] * item.write_pj
        latency = max(latency, reads[level] / instances / item.read_rate, writes[level] / instances / item.write_rate)
    iterations = float(sizes[0] * sizes[1] * sizes[2]) / used * machine.mac_cycles
    return Figures(energy, max(latency, iterations), used / machine.mesh)


def _check_size(memory: Memory, tile: list[int]) -> None:
    if memory.size is None:
        return
    held = sum(
        tile[DIMS.index(a)] * tile[DIMS.index(b)] for t, (a, b) in enumerate(INDEXED.values()) if memory.holds[t]
    )
    if held > memory.size:
        raise UserError(f"{memory.name} is to hold {held} values of {memory.size:g}")


def _send(
    machine: Machine,
    sizes: Sizes,
    loops: tuple[LevelLoops, ...],
    tile: list[list[int]],
    t: int,
    reads: list[float],
    writes: list[float],
) -> None:
    """Count what moves of one operand between every two memories that hold it next to each other."""
    n, d = len(machine.levels), ACROSS[t]
    holders = [v for v, m in enumerate(machine.levels) if isinstance(m, Memory) and m.holds[t]]
    last = max(v for v, m in enumerate(machine.levels) if isinstance(m, Memory))
    whole = float(sizes[0] * sizes[1] * sizes[2])
    filled = 0.0  # of the giver, from further out
    for giver, taker in zip(holders, [*holders[1:], n], strict=True):
        spread, saved, decided = 1, 1, False
        for v in range(taker - 1, giver - 1, -1):
            item = loops[v]
            if isinstance(machine.levels[v], Fanout):
                spread *= item.factors[d]
            elif not decided and item.innermost is not None:
                decided = True
                saved = item.factors[d] if item.innermost == d and v != last else 1
        sent = whole / (tile[taker][d] * spread * saved)
        down = sent
        if t == 2:
            above = 1
            for v in range(giver):
                above *= loops[v].factors[1] if isinstance(machine.levels[v], Fanout) else 1
            down = sent - float(sizes[0] * sizes[2]) * above
            writes[giver] += sent
            if taker < n:
                reads[taker] += (sent + filled) * spread
        reads[giver] += down
        filled = down * spread
        if taker < n:
            writes[taker] += filled
