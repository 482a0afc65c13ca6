"""Dies of a system as the chips of a language model, worked by hand (rules M95 to M97)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.arch.core_network import CoreNetwork
from codesign.arch.many_core_files import load_system
from codesign.core.errors import UserError
from codesign.evaluation.system_chips import chips_of, die_architecture, is_closed, one_die, staged
from codesign.workloads.chips import Chips
from tests.command_line import run

SERVED = "model: qwen3_0_6b\nrequests: [{prompt: 16, output: 4}]\n"


def test_two_dies_share_a_full_side() -> None:
    """Two dies of 3 x 6 cores: six links of 16 bytes a cycle at 1 GHz; the longest way inside a die is six hops."""
    chips = chips_of(load_system("gemini-72t"))
    assert (chips.count, chips.link_bytes_per_s) == (2, 6 * 16e9)
    assert chips.link_latency_s == pytest.approx(6e-9)
    assert chips.link_pj_per_byte == pytest.approx(19.2 + 5 * 3.2)


def test_a_row_of_three_dies_has_no_ring_of_neighbours() -> None:
    system = load_system("gemini-72t")
    row = replace(system, dies=replace(system.dies, x=3))
    assert not is_closed(row.dies)
    assert chips_of(row).link_latency_s == pytest.approx(2 * 6e-9)  # the last transfer goes back past both others


def test_one_die_has_no_links() -> None:
    assert chips_of(load_system("set-8x8")) == Chips()


def test_a_part_of_the_dies_has_no_links_around_the_sides() -> None:
    system = load_system("gemini-72t")
    torus = replace(system, network=CoreNetwork("torus", "yx"))
    assert one_die(torus).network == staged(torus, 2)[0].network == CoreNetwork("mesh", "yx")
    assert staged(torus, 1)[0].network == torus.network
    ring = replace(system, network=CoreNetwork("ring"))
    for stages_of in (staged, chips_of):
        with pytest.raises(UserError, match="joined by a mesh or a torus, got a ring of cores"):
            stages_of(ring, 2)


def test_stages_are_rectangles_of_dies() -> None:
    """Four dies of 3 x 3 cores in two stages of a column each: three links join the dies of a stage, six join both stages."""
    system = load_system("gemini-72t")
    square = replace(system, dies=replace(system.dies, x=2, y=2))
    chips = chips_of(square, 2)
    assert (chips.count, chips.tensor, chips.link_bytes_per_s) == (4, 2, 3 * 16e9)
    assert chips.link_latency_s == pytest.approx(3e-9)
    assert chips.between is not None
    assert chips.between.link_bytes_per_s == 6 * 16e9 / 2  # each of two dies
    assert chips.between.link_latency_s == pytest.approx(3e-9)
    assert chips.between.link_pj_per_byte == pytest.approx(19.2 + 2 * 3.2)


def test_stages_of_a_row_pass_a_whole_rectangle() -> None:
    """Six dies in a row, each one column: a stage of two is passed in two steps, over the six links of one side."""
    system = load_system("gemini-72t")
    chips = chips_of(replace(system, dies=replace(system.dies, x=6, y=1)), 3)
    assert chips.between is not None and chips.tensor == 2
    assert chips.between.link_bytes_per_s == 6 * 16e9 / 2
    assert chips.between.link_latency_s == pytest.approx(2e-9)
    assert chips.between.link_pj_per_byte == pytest.approx(2 * 19.2)
    with pytest.raises(UserError, match=r"6 x 1 dies cannot be cut into 4 equal rectangles, one for each stage"):
        chips_of(replace(system, dies=replace(system.dies, x=6, y=1)), 4)


def test_a_die_has_its_share_of_the_memory() -> None:
    system = load_system("gemini-72t")
    die = one_die(system)
    assert (die.width, die.height, die.dies.count) == (3, 6, 1)
    assert die.memories.words_per_cycle_each * len(die.memories.ports) == 4 * 36 // 2
    assert die_architecture(system).levels[0].read_bandwidth_words_per_cycle == 72


def test_a_system_serves(tmp_path: Path) -> None:
    spec = tmp_path / "serving.yaml"
    spec.write_text(SERVED)
    search = ("--mapper", "anneal", "--evaluations", "5", "--format", "json")
    found = json.loads(run("serve", str(spec), "--system", "gemini-72t", "--stages", "2", *search).out)
    assert found["chips"] == 2
    assert [stage["layers"] for stage in found["stages"]] == [19, 9]
    text = run("serve", str(spec), "--system", "gemini-72t", "--stages", "auto", *search[:-2]).out
    assert "1 stage of 2: " in text and "2 stages of 1: " in text and "makes the most tokens a second" in text
    both = run("serve", str(spec), "--system", "gemini-72t", "--arch", "tpu")
    assert both.code == 2 and "expected --arch or --system, got both" in both.err
    spec.write_text(SERVED + "chips: {count: 4}\n")
    assert "its dies are the chips" in run("serve", str(spec), "--system", "gemini-72t").err
