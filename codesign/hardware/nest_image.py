"""A mapping as the registers of a machine of loop nests."""

from collections.abc import Mapping as MappingABC
from collections.abc import Sequence

from codesign.hardware.image import (
    PATIENCE_CYCLES,
    Image,
    RegisterWriter,
    array_settings,
    deltas,
    line_address,
    place,
)
from codesign.hardware.layout import Layout, distance
from codesign.hardware.nest_plan import NestPlan
from codesign.hardware.parameters import PORTS


def nest_image(plan: NestPlan, registers: MappingABC[str, tuple[int, int]]) -> Image:
    """The registers and layouts of a plan on a machine with these registers."""
    layouts = plan.dram_layouts
    w = RegisterWriter(registers)
    _write_dma(plan, layouts, w)
    _write_loader(plan, layouts, w)
    _write_sequencer(plan, layouts, w)
    _write_local_halves(plan, w)
    _write_unit(plan, w)
    pairs = [*w.pairs, *array_settings(plan.p, plan.windows, plan.emissions)]
    _, size = place(list(layouts.values()))
    return Image(plan.p, tuple(pairs), layouts, plan.windows, plan.emissions, size)


def _dram_distance(plan: NestPlan, port: str, layout: Layout, loop: int) -> int:
    """Bytes in DRAM that one iteration of a temporal loop moves a tile."""
    return distance(plan.places[port], layout.strides, plan.move(port, loop), loop, True)


def _write_dma(plan: NestPlan, layouts: MappingABC[str, Layout], w: RegisterWriter) -> None:
    p = plan.p
    for engine, ports in (("read", PORTS), ("write", ("O",))):
        w.set(f"{engine}_result_log2", layouts["O"].element_bytes.bit_length() - 1)
        w.set(f"{engine}_patience", PATIENCE_CYCLES)
        for port in ports:
            box = plan.box(port)
            bounds = [b for b, _, _ in box.loops]
            w.set(f"{engine}_run_bytes_{port}", box.run_bytes)
            w.many(f"{engine}_bound_{port}", [b - 1 for b in bounds], p.box_loops)
            w.many(f"{engine}_dram_{port}", deltas(bounds, [d for _, d, _ in box.loops]), p.box_loops)
            line = [line_address(p, d) for d in deltas(bounds, [c for _, _, c in box.loops])]
            w.many(f"{engine}_line_{port}", line, p.box_loops)


def _mask(flags: Sequence[bool]) -> int:
    """Bits by level, level 0 the innermost."""
    return sum(1 << i for i, flag in enumerate(reversed(flags)) if flag)


def _inner_first(first: int, last: int) -> list[int]:
    return list(range(last - 1, first - 1, -1))


def _sum_loops(plan: NestPlan, first: int, last: int) -> int:
    """The loops that only add to the result: it begins while they are all in their first iteration."""
    return _mask([not any(plan.move("O", i)) for i in range(first, last)])


def _write_walk(plan: NestPlan, name: str, n: int, w: RegisterWriter) -> tuple[list[int], list[int]]:
    """The outermost loops as those that a part walks: their numbers and bounds, the innermost first."""
    loops = _inner_first(0, n)
    bounds = [plan.loops[i].factor for i in loops]
    w.many(f"{name}_bound", [b - 1 for b in bounds], plan.p.outer_loops)
    w.set(f"{name}_sum_loops", _sum_loops(plan, 0, n))
    return loops, bounds


def _write_loader(plan: NestPlan, layouts: MappingABC[str, Layout], w: RegisterWriter) -> None:
    p, n = plan.p, plan.n_loads
    loops, bounds = _write_walk(plan, "load", n, w)
    for port in PORTS:
        w.set(f"load_moves_{port}", _mask(plan.changes(port, plan.sp(port), n)))
        w.set(f"load_base_{port}", layouts[port].base)
        strides = [_dram_distance(plan, port, layouts[port], i) if i < plan.sp(port) else 0 for i in loops]
        w.many(f"load_dram_{port}", deltas(bounds, strides), p.outer_loops)
        places = plan.halves[port]
        w.set(f"place_{port}", line_address(p, places[0]))
        w.set(f"place_step_{port}", line_address(p, places[-1] - places[-2] if len(places) > 1 else 0))
        w.set(f"place_last_{port}", len(places) - 1)


def _write_sequencer(plan: NestPlan, layouts: MappingABC[str, Layout], w: RegisterWriter) -> None:
    p, n = plan.p, plan.n_seq
    loops, bounds = _write_walk(plan, "seq", n, w)
    out = [_dram_distance(plan, "O", layouts["O"], i) if i < plan.sp("O") else 0 for i in loops]
    w.many("seq_out", deltas(bounds, out), p.outer_loops)
    for port in PORTS:
        w.set(f"seq_moves_{port}", _mask(plan.changes(port, plan.sp(port), n)))
        w.set(f"seq_local_moves_{port}", _mask(plan.changes(port, plan.loc(port), n)))
        inside = [plan.sp(port) <= i < plan.loc(port) for i in loops]
        strides = [plan.chip_distance(port, i) if f else 0 for i, f in zip(loops, inside, strict=True)]
        w.many(f"seq_line_{port}", [line_address(p, d) for d in deltas(bounds, strides)], p.outer_loops)
        if port in p.local:
            w.set(f"seq_local_base_{port}", plan.local_halves[port][0])
            local = [plan.local_distance(port, i) if i >= plan.loc(port) else 0 for i in loops]
            w.many(f"seq_local_{port}", deltas(bounds, local), p.outer_loops)


def _write_local_halves(plan: NestPlan, w: RegisterWriter) -> None:
    """How far a tile's other half in the local memories lies from the first, where they fill beside the array."""
    if plan.p.fills_beside:
        halves = [plan.local_halves[port] for port in "AB"]
        w.set("seq_local_two", sum(1 << i for i, h in enumerate(halves) if len(h) > 1))
        for port, h in zip("AB", halves, strict=True):
            w.set(f"seq_local_other_{port}", h[-1] - h[0])


def _write_unit(plan: NestPlan, w: RegisterWriter) -> None:
    p = plan.p
    loops = _inner_first(plan.n_seq, len(plan.loops))
    bounds = [plan.loops[i].factor for i in loops]
    w.set("run_sum_loops", _sum_loops(plan, plan.n_seq, len(plan.loops)))
    w.set("ny", plan.used_rows)
    w.set("nx", plan.used_cols)
    w.set("nl", 0)
    if p.folds:
        w.set("resting", len(plan.resting))
    w.set("ones", 0)
    w.many("run_bound", [b - 1 for b in bounds], p.run_loops)
    for port in ("A", "B"):
        w.set(f"windows_{port}", len(plan.windows[port]) - 1)
        w.set(f"feed_{port}", 1)
    w.set("windows_O", len(plan.emissions.lines) - 1)
    for port in PORTS:
        if port not in p.local:
            line = deltas(bounds, [plan.chip_distance(port, i) for i in loops])
            w.many(f"run_line_{port}", [line_address(p, d) for d in line], p.run_loops)
            continue
        local = deltas(bounds, [plan.local_distance(port, i) if i >= plan.loc(port) else 0 for i in loops])
        w.many(f"run_local_{port}", local, p.run_loops)
        words = plan.grouped_words(port)
        if port in "AB" and p.fills_wide:
            w.set(f"fill_group_{port}", plan.group_bytes[port] >> 1)
        inner = [n for n, _, _ in words]
        w.many(f"fill_{port}_bound", [n - 1 for n in inner], p.run_loops)
        line = deltas(inner, [chip for _, chip, _ in words])
        w.many(f"fill_line_{port}", [line_address(p, d) for d in line], p.run_loops)
        w.many(f"fill_local_{port}", deltas(inner, [step for _, _, step in words]), p.run_loops)
