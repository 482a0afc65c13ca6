"""A run beside the cost model: what both count."""

from dataclasses import dataclass

from codesign.cost.cost import Cost
from codesign.hardware.bench import Run
from codesign.hardware.image import Image

Accesses = dict[tuple[str, str], tuple[int, int, int]]
"""(memory, tensor) -> elements read, filled, updated."""

MEMORIES = ("DRAM", "scratchpad", "local")


def accesses_of(image: Image, run: Run) -> Accesses:
    """Elements that a run moved, by memory and tensor, in the terms of docs/reference/cost-model.md."""
    counts, p = run.counts, image.parameters
    found: Accesses = {}
    width = {port: layout.element_bytes for port, layout in image.layouts.items()}
    for code, port in enumerate(("A", "B")):
        tensor, windows = image.layouts[port].tensor, image.windows[port]
        loaded = counts.loaded[tensor] // width[port]
        lines = {k: n for k, n in counts.feeds.items() if k[0] == code}
        read = int(sum(n * windows[w].words for (_, _, w), n in lines.items()))
        filled = int(sum(n * windows[w].taken for (_, into, w), n in lines.items() if into))
        found["DRAM", tensor] = (loaded, 0, 0)
        found["scratchpad", tensor] = (read, loaded, 0)
        if port in p.local:
            found["local", tensor] = (counts.multiplied, filled, 0)
    tensor = image.layouts["O"].tensor
    loaded, stored = counts.loaded[tensor] // width["O"], counts.stored[tensor] // width["O"]
    preloads = {w: n for (code, _, w), n in counts.feeds.items() if code == 2}
    preloaded = sum(n * _columns(image, w) for w, n in preloads.items() if image.emissions.lines[w].head)
    begun = sum(n * _columns(image, w, whole=True) for w, n in preloads.items())
    found["DRAM", tensor] = (loaded, 0, stored)
    found["scratchpad", tensor] = (counts.summed + preloaded, loaded, counts.written)
    if "O" in p.local:
        found["local", tensor] = (counts.multiplied - counts.begun, begun, counts.multiplied)
    return found


def _columns(image: Image, line: int, whole: bool = False) -> int:
    """Words of a line of results; with `whole`, elements of the row group and columns that belong to it."""
    emission, e = image.emissions.lines[line], image.emissions
    columns = [x for x, w in enumerate(e.window) if w == emission.window]
    rows = [y for y, g in enumerate(e.group) if g == emission.group]
    found = [x for y in rows for x in columns if (y, x) not in e.resting]
    return len(found) if whole else len({e.slot[x] for x in found})


def accesses_of_cost(cost: Cost) -> Accesses:
    """The cost model's counts by memory and tensor."""
    found: Accesses = {}
    for memory, level in zip(MEMORIES, cost.levels, strict=True):
        for traffic in level.tensors:
            found[memory, traffic.tensor] = (traffic.reads, traffic.fills, traffic.updates)
    return found


@dataclass(frozen=True)
class Difference:
    """Where a run and the model count differently."""

    memory: str
    tensor: str
    kind: str
    hardware: int
    model: int


def differences(hardware: Accesses, model: Accesses) -> tuple[Difference, ...]:
    """All entries in which the two differ."""
    found = []
    for memory, tensor in sorted(hardware.keys() | model.keys()):
        mine, theirs = hardware.get((memory, tensor), (0, 0, 0)), model.get((memory, tensor), (0, 0, 0))
        for kind, a, b in zip(("reads", "fills", "updates"), mine, theirs, strict=True):
            if a != b:
                found.append(Difference(memory, tensor, kind, a, b))
    return tuple(found)
