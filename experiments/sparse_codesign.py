"""Which accelerator decodes Llama-3-8B under 2, 20 and 200 W, and what W4, KV8 and 2:4 move: `python -m experiments.sparse_codesign`.

Every design of a small space (arrays, buffers, memories, with and without a skipping unit) runs every distinct matrix operator of the network on a
mapping of the exact mapper. A design's power at full speed must stay under the limit; the fastest wins. Vector operators are left out: they are
the same in every variant. Writes `results.json` and `table.md`.
"""

import itertools
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from codesign.arch.architecture import Architecture, Arithmetic, Fanout, LevelKind, Links, Ports, StorageLevel
from codesign.arch.operand_macs import Operand, OperandPair, mac_for
from codesign.arch.sparsity import RankFormat, ZeroKind
from codesign.arch.technology import apply_technology
from codesign.arch.technology_files import load_technology
from codesign.arch.zero_support import compressed, zero_unit
from codesign.core.goals import Budget, Objective, Proof
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import MappingProblem
from codesign.optim.pareto import nondominated
from codesign.workloads.computation import Computation
from codesign.workloads.density import DENSE, Structured
from codesign.workloads.load import load_network
from codesign.workloads.precision import Precision, operand_widths, with_precision
from experiments.mappers_common import draw, markdown
from experiments.options import head_parser

TECHNOLOGY = "cmos-22nm"
CLOCK_HZ = 1e9
MEMORIES = {"lpddr4 8 GB/s": ("lpddr4", 8.0), "lpddr4 64 GB/s": ("lpddr4", 64.0), "hbm2 400 GB/s": ("hbm2", 400.0), "hbm2 1600 GB/s": ("hbm2", 1600.0)}  # fmt: skip
LIMITS_W = (2.0, 20.0, 200.0)
EFFORT = 2e10
"""Cells that the exact mapper may fill for one operator; what needs more is counted as not proven."""

METADATA_BITS = 2
"""Of a non-zero of 2:4: its place among four."""


@dataclass(frozen=True)
class Variant:
    """What is done to the network.

    Args:
        name: For tables.
        precision: Widths.
        pruned: Whether parameters are 2:4.
    """

    name: str
    precision: str
    pruned: bool = False


VARIANTS = (
    Variant("W16A16", "W16A16"),
    Variant("W4", "W4g128A16"),
    Variant("KV8", "W16A16KV8"),
    Variant("2:4", "W16A16", pruned=True),
    Variant("W4 + KV8", "W4g128A16KV8"),
    Variant("W4 + KV8 + 2:4", "W4g128A16KV8", pruned=True),
)


@dataclass(frozen=True)
class Design:
    """A point of the space.

    Args:
        side: Rows and columns of the array.
        buffer_kib: On-chip buffer.
        memory: A key of `MEMORIES`.
        skips: Whether every MAC has a skipping unit.
    """

    side: int
    buffer_kib: int
    memory: str
    skips: bool

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.side} x {self.side}, {self.buffer_kib} KiB, {self.memory}{', skips' if self.skips else ''}"


Pairs = frozenset[OperandPair]
"""Operands that the MACs of a variant are given."""


@cache
def machine(design: Design, pairs: Pairs) -> Architecture:
    """The accelerator of a design, with MACs built for these operands, figures filled in."""
    dram, gigabytes = MEMORIES[design.memory]
    words = gigabytes * 1e9 / CLOCK_HZ / 8
    plain = Architecture(
        "decode",
        (
            StorageLevel(
                "DRAM",
                LevelKind.DRAM,
                word_bits=64,
                read_bandwidth_words_per_cycle=words,
                write_bandwidth_words_per_cycle=words,
                ports=Ports.SHARED,
            ),
            StorageLevel(
                "Buffer",
                capacity_bytes=design.buffer_kib * 1024,
                word_bits=256,
                banks=8,
                read_bandwidth_words_per_cycle=design.side / 4,
                write_bandwidth_words_per_cycle=design.side / 4,
                fanout=Fanout(design.side, design.side, Links.MULTICAST),
            ),
            StorageLevel("Register", LevelKind.REGISTERS, capacity_bytes=64, word_bits=16),
        ),
        Arithmetic(bits=16),
        CLOCK_HZ,
    )
    technology = load_technology(TECHNOLOGY)
    filled = apply_technology(plain, technology, dram=dram)
    filled = replace(filled, mac=mac_for(technology, filled.mac, pairs))
    if not design.skips:
        return filled
    return zero_unit(
        filled,
        technology.arithmetic,
        ZeroKind.SKIP,
        leaders=("weight",),
        followers=("input",),
        metadata_bits=METADATA_BITS,
    )


@dataclass(frozen=True)
class Work:
    """What a variant computes.

    Args:
        layers: The distinct matrix operators of the network, with how often each runs.
        pairs: Operands of their MACs.
    """

    layers: Counter[Computation]
    pairs: Pairs


def work_of(network: str, batch: int, past: int | None, variant: Variant) -> Work:
    """What a variant of a network computes."""
    phase = {} if past is None else {"phase": "decode", "past": past}
    loaded = load_network(network, batch=batch, bits=16, partial_bits=32, **phase)  # type: ignore[arg-type]
    precision = Precision.parse(variant.precision)
    widths = operand_widths(loaded, precision)
    loaded = with_precision(loaded, precision)
    found: Counter[Computation] = Counter()
    for operator in loaded.operators:
        if operator.computation is None:
            continue
        computation = operator.computation
        if variant.pruned and loaded.tensor_by_name[operator.operands[1]].is_parameter:
            computation = _pruned(computation)
        found[replace(computation, name="")] += 1
    return Work(found, frozenset(OperandPair.of(Operand(*wide), Operand(*narrow)) for wide, narrow in widths))


def _pruned(computation: Computation) -> Computation:
    """Weights 2:4 along the axis that is summed over, where blocks of four divide it."""
    weights = computation.tensors[1]
    for axis, index in enumerate(weights.axes):
        dim = index.terms[0][0]
        if len(index.terms) == 1 and dim in computation.reduced_dims and computation.sizes[dim] % 4 == 0:
            density = Structured(2, 4, axis)
            tensors = (computation.tensors[0], replace(weights, density=density), *computation.tensors[2:])
            return replace(computation, tensors=tensors)
    return computation


@cache
def mapped(computation: Computation, design: Design, pairs: Pairs) -> tuple[float, float, bool]:
    """Cycles, pJ and whether the mapping is proven, of one operator."""
    architecture = machine(design, pairs)
    if computation.tensors[1].density != DENSE:  # software writes a pruned tensor down compressed, any other plainly
        architecture = compressed(architecture, "weight", RankFormat.COORDINATES, METADATA_BITS)
    else:
        architecture = machine(replace(design, skips=False), pairs)
    problem = MappingProblem(computation, architecture)
    found = ExactMapper(effort=EFFORT).map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert found.cost is not None
    return float(found.cost.latency_cycles), found.cost.energy_pj, found.proof is Proof.OPTIMAL


@dataclass(frozen=True)
class Judged:
    """A design on a network."""

    design: Design
    seconds: float
    joules: float
    area_mm2: float
    proven: float

    @property
    def watts(self) -> float:
        """At full speed."""
        return self.joules / self.seconds


def judge(design: Design, work: Work) -> Judged:
    """All operators one after another."""
    cycles = picojoules = proven = 0.0
    for computation, count in work.layers.items():
        one_cycles, one_pj, optimal = mapped(computation, design, work.pairs)
        cycles, picojoules, proven = cycles + count * one_cycles, picojoules + count * one_pj, proven + optimal
    architecture = machine(design, work.pairs)
    seconds = cycles / CLOCK_HZ
    joules = picojoules * 1e-12 + architecture.leakage_w * seconds
    return Judged(design, seconds, joules, architecture.area_mm2 or 0.0, proven / len(work.layers))


def designs(smoke: bool) -> list[Design]:
    """The space."""
    sides, buffers = ((16, 64), (512,)) if smoke else ((16, 32, 64, 128), (512,))
    memories = list(MEMORIES)[:2] if smoke else list(MEMORIES)
    return [Design(*x) for x in itertools.product(sides, buffers, memories, (False, True))]


def run(smoke: bool, out: Path, batches: tuple[int, ...]) -> dict[str, object]:
    """Judge everything and write the tables."""
    started = time.process_time()
    rows: list[dict[str, object]] = []
    proven: list[float] = []
    points: dict[tuple[int, str], list[tuple[float, float]]] = {}
    judged = 0
    for batch in batches:
        for variant in VARIANTS[:: 5 if smoke else 1]:
            work = work_of("llama3-8b", batch, 1024, variant)
            found = [judge(design, work) for design in designs(smoke) if variant.pruned or not design.skips]
            judged += len(found)
            points[batch, variant.name] = [(batch / x.seconds, 1e3 * x.joules / batch) for x in found]
            proven.extend(x.proven for x in found)
            for limit in LIMITS_W:
                allowed = [x for x in found if x.watts <= limit]
                best = min(allowed, key=lambda x: x.seconds, default=None)
                rows.append(_row(batch, limit, variant, best))
    result: dict[str, object] = {
        "rows": rows,
        "designs_judged": judged,
        "mappings_proven": sum(proven) / len(proven),
        "cpu_seconds": time.process_time() - started,
        "points": [[batch, name, found] for (batch, name), found in points.items()],
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(result, indent=1))
    header = list(rows[0])
    (out / "table.md").write_text(markdown(header, [[str(row[h]) for h in header] for row in rows]))
    draw_fronts(out / "decode-fronts.svg", points)
    return result


def draw_fronts(path: Path, points: dict[tuple[int, str], list[tuple[float, float]]]) -> None:
    """One panel a batch: tokens a second against mJ a token of the designs that no other beats in both, by variant."""
    batches = sorted({batch for batch, _ in points})

    def paint(axes: Any) -> None:
        for axis, batch in zip(axes.flat, batches, strict=True):
            for name in [n for b, n in points if b == batch]:
                found = np.array(points[batch, name])
                best = found[nondominated(found * (-1.0, 1.0))]
                best = best[np.argsort(best[:, 0])]
                axis.loglog(best[:, 0], best[:, 1], "o-", markersize=3, linewidth=1, label=name)
            fastest, dearest = axis.get_xlim(), axis.get_ylim()
            for limit in LIMITS_W:  # watts are tokens a second times joules a token
                axis.loglog(fastest, [1e3 * limit / x for x in fastest], ":", color="#8892a4", linewidth=0.8)
            axis.set_xlim(fastest)
            axis.set_ylim(dearest)
            axis.set_title(f"batch {batch} (dotted: {', '.join(f'{w:g} W' for w in LIMITS_W)})")
            axis.set_xlabel("tokens per second")
            axis.set_ylabel("mJ per token")
        axes.flat[0].legend(frameon=False)

    draw(path, len(batches), paint)


def _row(batch: int, limit: float, variant: Variant, best: Judged | None) -> dict[str, object]:
    row: dict[str, object] = {"batch": batch, "limit (W)": limit, "variant": variant.name}
    if best is None:
        return row | {"design": "none", "tokens/s": 0.0, "mJ/token": 0.0, "W": 0.0, "mm2": 0.0}
    return row | {
        "design": best.design.name,
        "tokens/s": round(batch / best.seconds, 2),
        "mJ/token": round(1e3 * best.joules / batch, 1),
        "W": round(best.watts, 2),
        "mm2": round(best.area_mm2, 2),
    }


def compare_resnet(out: Path, sides: tuple[int, ...]) -> dict[str, object]:
    """ResNet-50 at 8 bits, dense against 2:4 weights, on the same arrays with and without skipping units."""
    started = time.process_time()
    rows: list[dict[str, object]] = []
    for side in sides:
        for memory in list(MEMORIES)[:2]:
            for variant in (Variant("dense", "W8A8"), Variant("2:4", "W8A8", pruned=True)):
                found = judge(Design(side, 512, memory, variant.pruned), work_of("resnet50", 1, None, variant))
                rows.append(
                    {
                        "design": found.design.name,
                        "weights": variant.name,
                        "ms": round(1e3 * found.seconds, 3),
                        "mJ": round(1e3 * found.joules, 3),
                        "mm2": round(found.area_mm2, 2),
                        "proven": f"{found.proven:.0%}",
                    }
                )
    out.mkdir(parents=True, exist_ok=True)
    header = list(rows[0])
    (out / "table.md").write_text(markdown(header, [[str(row[h]) for h in header] for row in rows]))
    _draw_resnet(out / "resnet-sparse.svg", rows)
    result: dict[str, object] = {"rows": rows, "cpu_seconds": time.process_time() - started}
    (out / "results.json").write_text(json.dumps(result, indent=1))
    return result


def _draw_resnet(path: Path, rows: list[dict[str, object]]) -> None:
    """Time and energy of an inference by design, dense beside 2:4."""

    def paint(axes: Any) -> None:
        names = [str(row["design"]) for row in rows if row["weights"] == "dense"]
        places = np.arange(len(names))
        for axis, key in zip(axes.flat, ("ms", "mJ"), strict=True):
            for k, weights in enumerate(("dense", "2:4")):
                values = [float(str(row[key])) for row in rows if row["weights"] == weights]
                axis.bar(places + 0.4 * k - 0.2, values, 0.38, label=weights)
            axis.set_xticks(places, [name.replace(", 512 KiB", "").replace(", ", "\n") for name in names])
            axis.set_ylabel(f"{key} per inference")
        axes.flat[0].legend(frameon=False)

    draw(path, 2, paint)


def main() -> int:
    """Parse the options, run, print one JSON object as the last line."""
    parser = head_parser(__doc__, out=Path("results/sparse_codesign"), smoke="four designs, two batches, two variants")
    parser.add_argument("--batch", type=int, nargs="+", help="sequences decoded together (1 8 64)")
    parser.add_argument("--resnet", action="store_true", help="ResNet-50 dense against 2:4 instead")
    options = parser.parse_args()
    if options.resnet:
        result = compare_resnet(options.out, (16,) if options.smoke else (16, 32))
        print((options.out / "table.md").read_text())
        print(json.dumps({k: v for k, v in result.items() if k not in ("rows", "points")}))
        return 0
    batches = options.batch or ((1, 64) if options.smoke else (1, 8, 64))
    if min(batches) < 1:
        parser.error(f"--batch must be at least 1, got {min(batches)}")
    result = run(options.smoke, options.out, tuple(batches))
    print((options.out / "table.md").read_text())
    print(json.dumps({k: v for k, v in result.items() if k not in ("rows", "points")}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
