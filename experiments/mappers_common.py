"""What the experiments on mappers share: architectures, networks, timing, files, and one way of drawing."""

import csv
import io
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from codesign.arch.architecture import Architecture, Ports, StorageLevel
from codesign.arch.files import architecture_from_json
from codesign.arch.presets import fill_figures, load_preset, preset_path
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import read_structured, write_atomic, write_json
from codesign.workloads.load import load_network
from codesign.workloads.network import LayerGroup

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


def csv_of(rows: Iterable["DataclassInstance"], kind: type["DataclassInstance"]) -> str:
    """Records of one kind as a CSV table; columns are its fields, with spaces for underscores."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f.name.replace("_", " ") for f in fields(kind)])
    writer.writerows(astuple(row) for row in rows)
    return text.getvalue()


def put_rows(path: Path, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Put rows into a CSV table: each in the place of the row whose first cell is the same, others at its end.

    Raises:
        UserError: The table has other columns.
    """
    old: list[list[str]] = []
    if path.exists():
        with path.open(encoding="utf-8", newline="") as stream:
            first, *old = csv.reader(stream)
        if first != list(head):
            raise UserError(f"the table has columns {first}, expected {list(head)}", where=str(path))
    lines = {row[0]: row for row in old} | {row[0]: list(row) for row in rows}
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *lines.values()])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.getvalue())


NETWORKS = ("alexnet", "resnet50", "resnext50", "deepbench", "resnet34", "darknet19", "mobilenet_v2")
"""Networks of the CoSA and SALSA papers. `deepbench` is the CoSA paper's part of it: text recognition and faces."""

COSA_NETWORKS = NETWORKS[:4]
SALSA_NETWORKS = ("alexnet", "resnet34", "resnet50", "darknet19", "mobilenet_v2")


def _grown(factors: dict[str, float]) -> Architecture:
    """Simba with larger buffers; energies of the larger memories from the preset's technology."""
    path = preset_path("simba")
    plain = architecture_from_json(read_structured(path)["architecture"], str(path))

    def grow(level: StorageLevel) -> StorageLevel:
        factor = factors.get(level.name, 1.0)
        bytes_ = level.capacity_bytes
        return level if bytes_ is None else replace(level, capacity_bytes=bytes_ * factor)

    return fill_figures(replace(plain, name="simba-large", levels=tuple(grow(v) for v in plain.levels)))


def _more_elements() -> Architecture:
    """Simba with 8 x 8 processing elements and twice the bandwidth on chip and to DRAM (CoSA, section V-B4)."""
    preset = load_preset("simba")
    dram, buffer, *rest = preset.levels

    def faster(level: StorageLevel) -> StorageLevel:
        read, write = level.read_bandwidth_words_per_cycle, level.write_bandwidth_words_per_cycle
        return replace(
            level,
            read_bandwidth_words_per_cycle=None if read is None else 2 * read,
            write_bandwidth_words_per_cycle=None if write is None else 2 * write,
        )

    wide = replace(faster(buffer), fanout=replace(buffer.fanout, x=8, y=8))
    return replace(preset, name="simba-8x8", levels=(faster(dram), wide, *rest))


ARCHITECTURES: dict[str, Callable[[], Architecture]] = {
    "simba": lambda: load_preset("simba"),
    "simba-8x8": _more_elements,
    "simba-large": lambda: _grown(
        {"GlobalBuffer": 8.0, "InputBuffer": 2.0, "WeightBuffer": 2.0, "AccumulationBuffer": 2.0}
    ),
    "eyeriss": lambda: load_preset("eyeriss"),
}
"""Name -> architecture: the CoSA paper's three (Table V, Fig. 9a, Fig. 9b) and Eyeriss."""


@cache
def architecture(name: str) -> Architecture:
    """One of `ARCHITECTURES`, DRAM read as the CoSA and SALSA papers' tools do: a port each for reads and writes (rule L2).

    Raises:
        UserError: There is none of that name.
    """
    if name not in ARCHITECTURES:
        raise unknown_name("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[name]().with_dram_ports(Ports.SEPARATE)


@cache
def layers(network: str) -> tuple[LayerGroup, ...]:
    """Distinct layers of a network with their numbers of occurrences.

    Raises:
        UserError: There is no such network.
    """
    if network == "deepbench":
        groups = load_network("deepbench_conv").distinct_layers()
        return tuple(g for g in groups if g.computation.name.startswith(("ocr", "face")))
    return load_network(network).distinct_layers()


def bounds_text(group: LayerGroup) -> str:
    """The bounds above 1 of a layer: ``K64 P112 Q112 C3 R7 S7``."""
    return " ".join(f"{d}{b}" for d, b in group.computation.sizes.items() if b > 1)


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """What a call returns and the CPU seconds it took."""
    started = time.process_time()
    result = call()
    return result, time.process_time() - started


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive values; nan of none."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def versions() -> dict[str, Any]:
    """Where a result was made."""
    return {"python": platform.python_version(), "cores": os.cpu_count(), "machine": platform.machine()}


def save(out: Path, config: Any, results: dict[str, Any], table: str = "") -> None:
    """Write `results.json`, and `table.md` if there is a table."""
    recorded = json.loads(json.dumps(asdict(config), default=str))
    write_json(out / "results.json", {"config": recorded, "versions": versions(), **results})
    if table:
        write_atomic(out / "table.md", table)


def markdown(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    head = list(header)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(str(c) for c in row) + " |" for row in rows)]) + "\n"


def draw(
    path: Path,
    panels: int,
    paint: Callable[[Any], None],
    *,
    width: float = 4.6,
    height: float = 3.4,
    columns: int | None = None,
) -> None:
    """Write an SVG figure, the same bytes for the same content.

    Args:
        path: Where it goes.
        panels: Number of axes.
        paint: Is given the array of axes.
        width: Inches of a panel.
        height: Inches of a panel.
        columns: Panels side by side; None: all.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "codesign", "font.size": 8}):
        across = min(panels, columns or panels)
        down = -(-panels // across)
        size = (width * across, height * down)
        figure, axes = pyplot.subplots(down, across, figsize=size, squeeze=False, layout="constrained")
        for unused in axes.flat[panels:]:
            unused.remove()
        paint(axes.flat[:panels])
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
