"""`codesign tensorize --emit`: the program of one choice, and its run in the simulator."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from codesign.cli.compiling import echo_json
from codesign.core.errors import UserError, unknown_name
from codesign.core.json_types import JsonObject

if TYPE_CHECKING:
    from codesign.cost.cost import Infeasible
    from codesign.formats.load import Inputs
    from codesign.tensorization.choice import TensorizeChoice
    from codesign.tensorization.gemmini import GemminiProgram
    from codesign.tensorization.program import Program
    from codesign.tensorization.schedule import Schedule
    from codesign.tensorization.scratchpad import Memories, Scratchpad
    from codesign.workloads.computation import Computation

FORMS = {
    "text": "pseudo",
    "json": "instructions",
    "pseudo": "pseudo",
    "instructions": "instructions",
    "gemmini": "gemmini",
}
"""Name of a form -> the form: pseudo-code, the instruction list that the simulator reads, Gemmini's instructions."""
_MOST_CALLS = 200_000
"""Calls up to which a program is unrolled: some 70 MB of JSON, and a minute or two in the simulator."""


@dataclass(frozen=True)
class ProgramOptions:
    """What was given on the command line; None where nothing was.

    Args:
        emit: Print a program instead: text (pseudo-code), json (instructions of the simulator) or gemmini.
        stage: Program of this stage (0, the whole, by default).
        choice: Number of the choice in the list (1).
        tiles: Iterations in the scratchpad together: k=32,x=32.
        order: Host loops from the outermost inwards: y,r,s,k,x,c.
        capacity: Scratchpad bytes (262144).
        banks: Scratchpad banks (4).
        arch: Design whose memories it uses: preset or file.
        mapping: Mapping file (of the padded computation) that gives the loops.
        reuse: What of a sliding window stays on chip: resident (default) or walk.
        run: Run the program in the simulator and compare with einsum.
        seed: Seed of the numbers it runs on.
        bits: Width of an element in the program (8).
        partial_bits: Width of a partial sum on chip (32).
        out: Write the program to this file.
    """

    emit: str | None = None
    stage: int | None = None
    choice: int | None = None
    tiles: str | None = None
    order: str | None = None
    capacity: int | None = None
    banks: int | None = None
    arch: str | None = None
    mapping: Path | None = None
    reuse: str | None = None
    run: bool | None = None
    seed: int | None = None
    bits: int | None = None
    partial_bits: int | None = None
    out: Path | None = None


def emit_program(
    options: ProgramOptions, parts: "list[Computation]", listed: "list[tuple[TensorizeChoice, ...]]", as_json: bool
) -> None:
    """Generate, perhaps run, and print or write the program of one choice.

    Args:
        options: From the command line.
        parts: The computation and, when it is split, its stages.
        listed: The choices of each part in the order in which they are listed.
        as_json: Print one JSON document instead of text.

    Raises:
        UserError: There is no such stage or choice, or the program is too long to unroll.
    """
    from codesign.cost.arrays import Reuse
    from codesign.tensorization.program import generate_program

    check_form(options.emit)
    choice = _pick(options, parts, listed)
    check_length(options, choice)
    rule = Reuse.parse(options.reuse or "resident")
    given = _inputs(options, choice)
    schedule = _schedule(options, choice, given)
    program = generate_program(schedule, _memories(options, choice.computation, given), reuse=rule)
    finish(options, program, as_json, {"status": "ok", "index_map": choice.index_map})


def check_form(name: str | None) -> str:
    """The form of that name.

    Raises:
        UserError: There is none.
    """
    if name not in FORMS:
        raise unknown_name("program form", str(name), FORMS, where="--emit")
    return FORMS[name]


def check_length(options: ProgramOptions, choice: "TensorizeChoice") -> None:
    """Refuse programs that are too long to unroll.

    Raises:
        UserError: It is, and it would be.
    """
    if (check_form(options.emit) != "pseudo" or options.run) and choice.calls > _MOST_CALLS:
        raise UserError(
            f"the program makes {choice.calls} calls; it is unrolled up to {_MOST_CALLS}",
            hint="give smaller --bounds, or use --emit text without --run",
        )


def finish(options: ProgramOptions, program: "Program | Infeasible", as_json: bool, document: JsonObject) -> None:
    """Translate, perhaps run, and print or write a program.

    Args:
        options: From the command line.
        program: What was generated.
        as_json: Print one JSON document instead of text.
        document: What stands in it besides form, simulation and program.
    """
    from codesign.cost.cost import Infeasible
    from codesign.tensorization.gemmini import gemmini_program

    form = check_form(options.emit)
    if isinstance(program, Infeasible):
        _say_infeasible(program.to_json(), str(program), as_json)
        return
    translated = gemmini_program(program) if form == "gemmini" else None
    if isinstance(translated, Infeasible):
        _say_infeasible(translated.to_json(), str(translated), as_json)
        return
    text = str(translated) if translated is not None else _render(program, form)
    run = _run(program, translated, options.seed or 0) if options.run else None
    if options.out is not None:
        from codesign.core.files import write_atomic

        write_atomic(options.out, text + "\n")
        typer.echo(f"written to {options.out}", err=True)
    if as_json:
        body = json.loads(text) if form == "instructions" else text
        document = {**document, "form": form, "simulation": run}
        echo_json(document if options.out else {**document, "program": body}, indent=1)
        return
    if options.out is None:
        typer.echo(text)
    if run is not None:
        same = "equals einsum" if run["equals_einsum"] else "DIFFERS from einsum"
        typer.echo(f"simulated: {same}; {run['calls']} calls, {run['dram_bytes']} DRAM bytes", err=True)


def _pick(
    options: ProgramOptions, parts: "list[Computation]", listed: "list[tuple[TensorizeChoice, ...]]"
) -> "TensorizeChoice":
    stage = options.stage or 0
    if not 0 <= stage < len(parts):
        raise UserError(f"--stage must be in 0..{len(parts) - 1}, got {stage}", where=str(parts[0]))
    number, found = options.choice or 1, listed[stage]
    if not 1 <= number <= len(found):
        hint = "" if len(parts) == 1 else f"stages: {', '.join(f'{i} has {len(c)}' for i, c in enumerate(listed))}"
        raise UserError(
            f"--choice must be in 1..{len(found)}, got {number}" if found else "there is no choice",
            where=str(parts[stage]),
            hint=hint or None,
        )
    return found[number - 1]


def _memories(options: ProgramOptions, computation: "Computation", given: "Inputs | None") -> "Scratchpad | Memories":
    from codesign.tensorization.scratchpad import Scratchpad, memories_of

    if given is None:
        return Scratchpad(
            256 * 1024 if options.capacity is None else options.capacity, 4 if options.banks is None else options.banks
        )
    if options.capacity is not None or options.banks is not None:
        raise UserError("--capacity and --banks come from the design", hint="leave them out, or leave out --arch")
    return memories_of(computation, given.need_architecture(), given.mapping)


def _inputs(options: ProgramOptions, choice: "TensorizeChoice") -> "Inputs | None":
    """The design and, if one is given, the mapping of the padded computation on it."""
    if options.arch is None:
        if options.mapping is not None:
            raise UserError("--mapping needs the design it is for", hint="add --arch")
        return None
    from codesign.formats.load import load_inputs
    from codesign.library.arguments import Sources

    given = Sources(options.arch).resolve()
    if options.mapping is None:
        return given
    return load_inputs([options.mapping], architecture=given.need_architecture(), computation=choice.padded)


def _schedule(options: ProgramOptions, choice: "TensorizeChoice", given: "Inputs | None") -> "Schedule":
    from codesign.tensorization.intrinsics import parse_bounds
    from codesign.tensorization.schedule import schedule_from_mapping, schedule_from_tiles

    if given is None or given.mapping is None:
        order = None if options.order is None else [d.strip() for d in options.order.split(",")]
        return schedule_from_tiles(choice, parse_bounds(options.tiles, "--tiles") if options.tiles else None, order)
    if options.tiles is not None or options.order is not None:
        raise UserError("--tiles and --order come from the mapping", hint="leave them out, or leave out --mapping")
    return schedule_from_mapping(choice, given.mapping)


def _render(program: "Program", form: str) -> str:
    if form == "instructions":
        return json.dumps(program.to_json())
    from codesign.tensorization.pseudo_code import pseudo_code

    return pseudo_code(program)


def _say_infeasible(document: JsonObject, text: str, as_json: bool) -> None:
    if as_json:
        echo_json(document, indent=1)
    else:
        typer.echo(f"status: infeasible\n{text}")


def _run(program: "Program", translated: "GemminiProgram | None", seed: int) -> JsonObject:
    """Simulate on random numbers and compare with einsum; what the simulator counts, in the form of ``--format json``."""
    import numpy as np

    from codesign.tensorization.execute import affine_einsum, random_inputs
    from codesign.tensorization.gemmini_simulator import simulate_gemmini
    from codesign.tensorization.simulator import simulate, wrapped

    computation = program.schedule.choice.computation
    inputs = random_inputs(computation, seed)
    expected = affine_einsum(computation, inputs)
    if translated is not None:
        empty = np.full(computation.output.shape(computation.sizes), 77, np.int8)
        ran = simulate_gemmini(translated, inputs, (computation.output.name, empty))
        same = bool(np.array_equal(ran.output, wrapped(expected, 1)))
        head: JsonObject = {"equals_einsum": same, "calls": ran.computes, "dram_bytes": ran.dram_bytes}
        return {**head, "host_packed_bytes": ran.packed_bytes, "seed": seed}
    result = simulate(program.to_json(), inputs)
    same = bool(np.array_equal(result.output, wrapped(expected, result.output.itemsize)))
    return {
        "equals_einsum": same,
        "calls": result.calls,
        "dram_bytes": result.dram_bytes,
        "dram_read_bytes": result.dram_read_bytes,
        "dram_write_bytes": result.dram_write_bytes,
        "dram_bursts": result.dram_bursts,
        "moved_bytes": result.moved_bytes,
        "serialised_calls": result.serialised_calls,
        "seed": seed,
    }
