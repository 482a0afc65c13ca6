"""Instructions of a schedule: loads, stores and computations with their dependencies, and when buffer space is taken and given back.

Two queues, each in order: the DRAM queue (loads and stores) and the compute queue. An instruction starts when it is at the head of
its queue, its engine is free and every instruction it depends on has finished.
"""

from dataclasses import dataclass

from codesign.core.json_types import JsonObject
from codesign.scheduling.soma.evaluator import BYTES, KIND, LAYER, SOURCE, TILE, USE, Schedule
from codesign.scheduling.soma.kernels import decode as kf


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Args:
        index: Its number; dependencies name these.
        operation: `load`, `store` or `compute`.
        layer: Layer it works for.
        tile: Tile of that layer; -1 for weights.
        size_bytes: Bytes moved (0 for `compute`).
        cycles: Engine time of a `compute` (0 for transfers: bandwidth decides).
        tensor: Tensor moved, or -1.
        after: Instructions that must have finished.
        what: `weights`, `input` or `output` for transfers.
    """

    index: int
    operation: str
    layer: int
    tile: int
    size_bytes: int
    cycles: int
    tensor: int
    after: tuple[int, ...]
    what: str = ""


@dataclass(frozen=True)
class Reservation:
    """Buffer space of one tensor: taken when compute `first` starts (None: before the first), returned when compute `last` starts.

    `last` None: kept to the end.
    """

    tensor: int
    size_bytes: int
    first: int | None
    last: int | None


@dataclass(frozen=True)
class Program:
    """Instructions of a schedule and the machine they need.

    Args:
        dram: DRAM queue in order.
        compute: Compute queue in order.
        reservations: Buffer space.
        bandwidth_bytes_per_cycle: Of the DRAM channel.
        capacity_bytes: Buffer.
        layers: Names of the layers.
    """

    dram: tuple[Instruction, ...]
    compute: tuple[Instruction, ...]
    reservations: tuple[Reservation, ...]
    bandwidth_bytes_per_cycle: int
    capacity_bytes: int
    layers: tuple[str, ...]


def make_instructions(schedule: Schedule) -> Program:
    """The program of a schedule."""
    parsed = schedule.parsed
    rows = parsed.tensors
    total = len(parsed.tile_layer)
    number = {int(t): total + i for i, t in enumerate(schedule.order)}
    waits: list[list[int]] = [[] for _ in range(total + 1)]
    dram = []
    for t in schedule.order.tolist():
        kind, use = int(rows[t, KIND]), int(rows[t, USE])
        start = int(schedule.start[t])
        if kind == kf.STORE:
            after: tuple[int, ...] = (use,)
            waits[int(schedule.end[t])].append(number[t])
        else:
            after = (start - 1,) if start > 0 else ()
            source = int(rows[t, SOURCE])
            if parsed.problem.options.store_before_load and kind == kf.LOAD_IFMAP and source >= 0:
                stores = (rows[:, KIND] == kf.STORE) & (rows[:, LAYER] == source)
                after += tuple(number[int(s)] for s in stores.nonzero()[0])
            waits[use].append(number[t])
        operation, what = (
            ("store", "output") if kind == kf.STORE else ("load", "weights" if kind == kf.LOAD_WEIGHT else "input")
        )
        layer, tile, size = (int(rows[t, column]) for column in (LAYER, TILE, BYTES))
        dram.append(Instruction(number[t], operation, layer, tile, size, 0, t, after, what))
    compute = tuple(
        Instruction(p, "compute", layer, tile, 0, cycles, -1, tuple(waits[p]))
        for p, (_, layer, tile, cycles) in enumerate(schedule.tile_runs)
    )
    lives = zip(rows[:, BYTES].tolist(), schedule.start.tolist(), schedule.end.tolist(), strict=True)
    reservations = tuple(
        Reservation(t, size, start if start >= 0 else None, end if end < total else None)
        for t, (size, start, end) in enumerate(lives)
    )
    return Program(
        tuple(dram),
        compute,
        reservations,
        parsed.problem.hardware.dram_bytes_per_cycle,
        parsed.problem.limit_bytes,
        tuple(layer.name for layer in parsed.problem.graph.layers),
    )


def instructions_json(program: Program) -> JsonObject:
    """The program as JSON."""

    def row(i: Instruction) -> JsonObject:
        value: JsonObject = {
            "id": i.index,
            "op": i.operation,
            "layer": program.layers[i.layer],
            "tile": i.tile,
            "after": list(i.after),
        }
        if i.operation == "compute":
            value["cycles"] = i.cycles
        else:
            value.update(bytes=i.size_bytes, tensor=i.tensor, what=i.what)
        return value

    return {
        "machine": {
            "dram_bytes_per_cycle": program.bandwidth_bytes_per_cycle,
            "dram_channels": 1,
            "buffer_bytes": program.capacity_bytes,
        },
        "dram": [row(i) for i in program.dram],
        "compute": [row(i) for i in program.compute],
        "buffer": [
            {"tensor": r.tensor, "bytes": r.size_bytes, "taken_at_compute": r.first, "returned_at_compute": r.last}
            for r in program.reservations
        ],
    }
