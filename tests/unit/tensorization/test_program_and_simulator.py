import copy
import json
from dataclasses import replace

import numpy as np
import pytest

from codesign.arch.architecture import Fanout
from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, Infeasible, evaluate
from codesign.mapping.mapping import Mapping, Spatial, Storage, Temporal
from codesign.tensorization.choice import TensorizeChoice, choices
from codesign.tensorization.execute import affine_einsum, random_inputs
from codesign.tensorization.gemmini import (
    Compute,
    GemminiMemory,
    GemminiProgram,
    HostPack,
    Mvin,
    Preload,
    gemmini_program,
)
from codesign.tensorization.gemmini_simulator import simulate_gemmini
from codesign.tensorization.intrinsics import intrinsic
from codesign.tensorization.program import Move, Program, Transfer, Zero, generate_program
from codesign.tensorization.pseudo_code import pseudo_code
from codesign.tensorization.schedule import Schedule, schedule_from_mapping, schedule_from_tiles
from codesign.tensorization.scratchpad import Scratchpad, allocate, memories_of
from codesign.tensorization.simulator import SimulationError, read_instruction, simulate, wrapped
from codesign.workloads.computation import Computation

CONV = Computation.parse("C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", k=8, c=8, x=6, y=5, r=3, s=3, bits=8, partial_bits=32)
GEMM = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=8, j=8, k=8, bits=8, partial_bits=32)


def pick(computation: Computation, unit: str, size: str, which: str) -> TensorizeChoice:
    return next(c for c in choices(computation, intrinsic(unit, size), partial=True) if str(c.match) == which)


def program(schedule: Schedule, capacity: int = 4096, banks: int = 4, reuse: Reuse = Reuse.RESIDENT) -> Program:
    made = generate_program(schedule, Scratchpad(capacity, banks), reuse=reuse)
    assert isinstance(made, Program)
    return made


def conv_program(**changes) -> Program:
    choice = pick(CONV, "gemm", "4x4x4", "i->k, j->y, k->c")
    return program(schedule_from_tiles(choice, {"k": 8, "x": 2, "y": 5, "c": 4, "r": 3, "s": 3}, ["c", "k"]), **changes)


def runs_right(made: Program, seed: int = 0):
    computation = made.schedule.choice.computation
    inputs = random_inputs(computation, seed)
    result = simulate(json.loads(json.dumps(made.to_json())), inputs)
    assert np.array_equal(result.output, wrapped(affine_einsum(computation, inputs), result.output.itemsize))
    return result


@pytest.mark.parametrize("reuse", [Reuse.RESIDENT, Reuse.WHOLE])
def test_an_entry_of_the_list_is_the_instruction_again(reuse: Reuse) -> None:
    made = conv_program(reuse=reuse)
    entries = json.loads(json.dumps(made.to_json()))["instructions"]
    assert [read_instruction(entry) for entry in entries] == list(made.instructions())


def test_a_matrix_product_moves_the_bytes_counted_by_hand() -> None:
    choice = pick(GEMM, "gemm", "4x4x4", "i->i, j->j, k->k")
    result = runs_right(program(schedule_from_tiles(choice, {"i": 4, "j": 8, "k": 4}, ["k", "i"])))
    # loops k (2), i (2): M once, N once; L written in both rounds of k and read back in the second
    assert result.dram_read_bytes == {"M": 64, "N": 64, "L": 64}
    assert result.dram_write_bytes == {"M": 0, "N": 0, "L": 128}
    assert (result.calls, result.moved_bytes, result.serialised_calls) == (8, 0, 0)
    assert result.dram_bytes == 320
    # M in 4 parts of 4 rows of half its width; N in 2 and L in 2 + 4 parts of whole rows
    assert result.dram_bursts == 4 * 4 + 2 + 6


def test_a_tensor_is_not_loaded_again_in_loops_that_do_not_index_it() -> None:
    choice = pick(GEMM, "gemm", "4x4x4", "i->i, j->j, k->k")
    result = runs_right(program(schedule_from_tiles(choice, {}, ["i", "j", "k"])))
    assert result.dram_write_bytes["L"] == 64  # k innermost: every part leaves once
    assert result.dram_read_bytes == {"M": 2 * 64, "N": 2 * 64, "L": 0}


def test_keeping_a_tensor_further_out_saves_its_traffic() -> None:
    choice = pick(GEMM, "gemm", "4x4x4", "i->i, j->j, k->k")
    plain = schedule_from_tiles(choice, {}, ["i", "j", "k"])
    result = runs_right(program(Schedule(choice, plain.host, plain.inner, {"N": 0})))
    assert result.dram_read_bytes == {"M": 2 * 64, "N": 64, "L": 0}


def test_a_sliding_window_loads_only_what_is_new() -> None:
    made = conv_program()
    kinds = [type(i) for i in made.instructions()]
    assert kinds.count(Move) == 4  # x moves twice for each of two c
    result = runs_right(made)
    assert result.dram_read_bytes["A"] == 2 * 4 * 8 * 7  # each half of the channels once, 8 rows of 7
    assert result.moved_bytes == 4 * (4 * 2 * 7)


def test_whole_tiles_reload_the_overlap() -> None:
    loads = [
        i
        for i in conv_program().instructions(whole_tiles=True)
        if isinstance(i, Transfer) and i.op == "load" and i.buffer == "sA"
    ]
    assert [t.shape for t in loads] == [(4, 4, 7)] * 6


def test_walking_reuse_reloads_where_the_window_turns() -> None:
    filtered = Computation.parse("O[p] += I[p+r] * W[r]", p=6, r=2, bits=8, partial_bits=32)
    schedule = schedule_from_tiles(pick(filtered, "dot", "1", "i->r"), {"p": 3}, ["r", "p"])
    # parts start at 0, 3, 1, 4 and are 3 long: one element of the second is still there for the third
    assert runs_right(program(schedule, reuse=Reuse.RESIDENT)).dram_read_bytes["I"] == 11
    assert runs_right(program(schedule, reuse=Reuse.WALK)).dram_read_bytes["I"] == 12


def test_a_scalar_operand_scales_the_calls() -> None:
    mttkrp = Computation.parse("D[i,j] += A[i,k,l] * B[l,j] * C[k,j]", i=4, j=3, k=5, l=2, bits=8, partial_bits=32)
    choice = pick(mttkrp, "gemv", "4x2", "i->i, j->k")
    assert choice.match.scalars == ("B",)
    runs_right(program(schedule_from_tiles(choice, {"k": 4}), banks=4))


def test_every_tensor_gets_banks_of_its_own_when_they_suffice() -> None:
    made = conv_program(banks=4)
    assert [b.place for b in made.buffers] == [f"scratchpad.bank{i}+0x0000" for i in range(3)]
    assert not made.shares_banks
    assert runs_right(made).serialised_calls == 0


def test_sharing_a_bank_is_allowed_and_counted() -> None:
    made = conv_program(banks=1)
    assert made.shares_banks
    result = runs_right(made)
    assert result.serialised_calls == result.calls


def test_what_does_not_fit_is_infeasible_not_an_error() -> None:
    made = generate_program(conv_program().schedule, Scratchpad(512, 1))
    assert isinstance(made, Infeasible)
    assert made.resource == "scratchpad capacity"
    assert (made.demand, made.limit) == (4 * 4 * 7 + 8 * 4 * 9 + 8 * 2 * 5 * 4, 512)


def test_output_blocks_are_zeroed_once_and_loaded_afterwards() -> None:
    found = [type(i) for i in conv_program().instructions() if getattr(i, "buffer", None) == "sC"]
    assert found.count(Zero) == 3
    assert found.count(Transfer) == 3 + 6  # loads in the second round of c, stores in both


def test_iterations_beyond_the_bound_make_no_call() -> None:
    odd = GEMM.with_bounds(i=5)
    choice = pick(odd, "gemm", "2x4x4", "i->i, j->j, k->k")
    schedule = Schedule(choice, (("i", 2),), (("i", 2), ("j", 2), ("k", 2)))
    assert schedule.covered["i"] == 8
    assert runs_right(program(schedule)).calls == choice.calls == 3 * 2 * 2


def test_the_mapping_of_a_schedule_gives_the_schedule_back() -> None:
    schedule = conv_program().schedule
    mapping = schedule.to_mapping("DRAM", "spad", {"i": ("x", "spad"), "j": ("y", "spad")})
    assert {d: mapping.iterations(d) for d in CONV.dims} == schedule.padded.sizes
    assert mapping.spatial_iterations == 16
    back = schedule_from_mapping(schedule.choice, mapping)
    assert (back.host, dict(back.inner)) == (schedule.host, dict(schedule.inner))


class TestDesigns:
    """Programs for Gemmini's default configuration: operands in the scratchpad, partial sums in the accumulator."""

    def exact(self) -> Schedule:
        choice = pick(CONV.with_bounds(y=8), "gemm", "4x4x4", "i->k, j->y, k->c")
        return schedule_from_tiles(choice, {"k": 8, "x": 2, "y": 4, "c": 4, "r": 3, "s": 3}, ["c", "k", "x", "y"])

    def test_every_tensor_enters_the_memory_that_may_keep_it(self) -> None:
        memories = memories_of(CONV, load_preset("gemmini"))
        assert {t: (m.name, m.capacity_bytes, m.banks) for t, m in memories.items()} == {
            "A": ("Scratchpad", 262144, 4),
            "B": ("Scratchpad", 262144, 4),
            "C": ("Accumulator", 65536, 2),
        }

    @pytest.mark.parametrize("reuse", [Reuse.RESIDENT, Reuse.WALK])
    def test_a_mapping_on_a_design_becomes_a_program_with_its_dram_bytes(self, reuse: Reuse) -> None:
        design, schedule = load_preset("gemmini"), self.exact()
        levels = {"A": "Scratchpad", "B": "Scratchpad", "C": "Accumulator"}
        mapping = schedule.to_mapping("DRAM", levels, {"i": ("x", "Accumulator"), "k": ("y", "Accumulator")})
        computation = schedule.choice.computation
        back = schedule_from_mapping(schedule.choice, mapping)
        made = generate_program(back, memories_of(computation, design, mapping), reuse=reuse)
        cost = evaluate(computation, design, mapping, reuse=reuse)
        assert isinstance(made, Program)
        assert isinstance(cost, Cost)
        assert [b.place for b in made.buffers] == [
            "Scratchpad.bank0+0x0000",
            "Scratchpad.bank1+0x0000",
            "Accumulator.bank0+0x0000",
        ]
        assert runs_right(made).dram_bytes == cost.dram_bytes

    def test_a_memory_that_is_too_small_is_named(self) -> None:
        small = load_preset("gemmini").with_level("Accumulator", capacity_bytes=64.0)
        made = generate_program(self.exact(), memories_of(CONV, small))
        assert isinstance(made, Infeasible)
        assert (made.resource, made.limit) == ("Accumulator capacity", 64)

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (lambda d: d.with_level("Scratchpad", capacity_bytes=None), "a memory of known capacity"),
            (lambda d: d.with_level("DRAM", fanout=Fanout(2, 2)), "the design has 4 of this level"),
            (lambda d: d.with_level("Scratchpad", capacity_bytes=2.0), "`capacity_bytes` must be >= 1, got 0"),
            (lambda d: replace(d, levels=d.levels[:1]), "no on-chip level keeps 'A'"),
        ],
    )
    def test_designs_that_no_program_can_drive(self, change, text: str) -> None:
        with pytest.raises(UserError) as caught:
            memories_of(CONV, change(load_preset("gemmini")))
        assert text in str(caught.value)

    def test_mappings_that_give_no_schedule(self) -> None:
        schedule = self.exact()
        with pytest.raises(UserError, match="'A' is not kept on chip"):
            schedule_from_mapping(schedule.choice, Mapping(tuple(Storage(t, "DRAM") for t in "ABC")))
        outside = [
            *(Storage(t, "DRAM") for t in "ABC"),
            Spatial("x", 6, "x", "DRAM"),
            *(Storage(t, "S") for t in "ABC"),
        ]
        with pytest.raises(UserError, match="spatial loop over 'x' stands outside"):
            schedule_from_mapping(schedule.choice, Mapping(tuple(outside)))
        uneven = [*(Storage(t, "DRAM") for t in "ABC"), *(Storage(t, "S") for t in "ABC"), Temporal("k", 6)]
        with pytest.raises(UserError, match="inner loops over 'k' do not contain the intrinsic's tile of 4"):
            schedule_from_mapping(schedule.choice, Mapping(tuple(uneven)))


def test_pseudo_code_shows_loops_addresses_transfers_and_calls() -> None:
    text = pseudo_code(conv_program())
    assert "buffer sB   @ scratchpad.bank1+0x0000  8x4x3x3 elements of 1 bytes" in text
    assert "for c0 in range(0, 8, 4):  # host" in text
    assert "zero  sC if c0 == 0 else load sC <- C[0:+8, x0:+2, 0:+5]" in text
    assert "load  sA <- A[c0:+4, x0:+4, 0:+7]  # what the last part shares stays on chip" in text
    assert "sC(k0:+4, x1, y0:+4) += gemm(M=sB(k0:+4, c0:+4, r0, s0), N=sA(c0:+4, x1+r0, y0+s0:+4))" in text
    assert text.splitlines()[-1].strip() == "store sC -> C[0:+8, x0:+2, 0:+5]"


class TestFaultsAreFound:
    """The simulator must catch broken programs, or its silence proves nothing."""

    def broken(self, change) -> None:
        document = copy.deepcopy(conv_program().to_json())
        change(document)
        result = simulate(document, random_inputs(CONV, 0))
        assert np.array_equal(result.output, wrapped(affine_einsum(CONV, random_inputs(CONV, 0)), 1))

    def first(self, document: dict, op: str, buffer: str = "") -> int:
        return next(
            i for i, x in enumerate(document["instructions"]) if x["op"] == op and (not buffer or x["buffer"] == buffer)
        )

    def test_a_missing_load(self) -> None:
        with pytest.raises(SimulationError, match=r"\(call\): reads uninitialised bytes of buffer 'sA'"):
            self.broken(lambda d: d["instructions"].pop(self.first(d, "load", "sA")))

    def test_a_missing_zero(self) -> None:
        with pytest.raises(SimulationError, match="reads uninitialised bytes of buffer 'sC'"):
            self.broken(lambda d: d["instructions"].pop(self.first(d, "zero")))

    def test_a_missing_store(self) -> None:
        with pytest.raises(SimulationError, match=r"never stored|unwritten|not stored"):
            self.broken(lambda d: d["instructions"].pop(self.first(d, "store")))

    def test_an_overlapping_buffer(self) -> None:
        def overlap(document: dict) -> None:
            document["shared_banks"] = True
            document["buffers"][1]["address"] = document["buffers"][0]["address"] + 8

        with pytest.raises(SimulationError, match="another buffer has overwritten"):
            self.broken(overlap)

    def test_results_overwritten_before_they_are_stored(self) -> None:
        def overlap(document: dict) -> None:
            document["shared_banks"] = True
            document["buffers"][2]["address"] = document["buffers"][0]["address"]

        with pytest.raises(SimulationError, match="overwrites results that were not stored"):
            self.broken(overlap)

    def test_two_operands_in_one_bank(self) -> None:
        with pytest.raises(SimulationError, match="two operands of a call lie in one bank"):
            self.broken(lambda d: d["buffers"][1].update(address=512))

    def test_an_element_across_two_banks(self) -> None:
        with pytest.raises(SimulationError, match="straddles two banks"):
            self.broken(lambda d: d["buffers"][2].update(address=2046))

    def test_an_address_outside(self) -> None:
        with pytest.raises(SimulationError, match="outside the scratchpad"):
            self.broken(lambda d: d["buffers"][2].update(address=4090))

    def test_a_position_outside_its_buffer(self) -> None:
        with pytest.raises(SimulationError, match="outside axis 1"):
            self.broken(lambda d: d["instructions"][self.first(d, "load", "sA")]["at"].__setitem__(1, 1))

    def test_a_transfer_outside_its_tensor(self) -> None:
        with pytest.raises(SimulationError, match="outside tensor 'A'"):
            self.broken(lambda d: d["instructions"][self.first(d, "load", "sA")]["dram"].__setitem__(0, 6))

    def test_partial_sums_that_never_left(self) -> None:
        def load_first(document: dict) -> None:
            at = self.first(document, "zero")
            document["instructions"][at]["op"] = "load"

        with pytest.raises(SimulationError, match="loads partial sums of 'C' that were never stored"):
            self.broken(load_first)

    def test_wrong_numbers_show_in_the_output(self) -> None:
        def shift(document: dict) -> None:
            document["instructions"][self.first(document, "load", "sB")]["dram"][0] = 0
            call = document["instructions"][self.first(document, "call")]
            call["operands"][0]["at"][0] = 4

        with pytest.raises(AssertionError):
            self.broken(shift)

    def test_an_unknown_instruction(self) -> None:
        with pytest.raises(SimulationError, match="unknown instruction 'halt'"):
            self.broken(lambda d: d["instructions"][0].update(op="halt"))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Scratchpad(100, 3), "does not give 3 equal banks"),
        (lambda: Scratchpad(0, 1), "`capacity_bytes` must be >= 1, got 0"),
        (lambda: schedule_from_tiles(pick(GEMM, "gemm", "4x4x4", "i->i, j->j, k->k"), {"z": 1}), "unknown dimension 'z'"),
        (lambda: schedule_from_tiles(pick(GEMM, "gemm", "4x4x4", "i->i, j->j, k->k"), {}, ["i", "i"]), "a dimension twice"),
        (lambda: schedule_from_tiles(pick(GEMM, "gemm", "4x4x4", "i->i, j->j, k->k"), {"i": 0}), "tile of 'i' must be >= 1"),
        (lambda: Schedule(pick(GEMM, "gemm", "4x4x4", "i->i, j->j, k->k"), (("i", 2),)), "loops over 'j' cover 4 of 8"),
        (lambda: Schedule(pick(GEMM, "gemm", "8x8x8", "i->i, j->j, k->k"), (), (), {"Q": 0}), "unknown tensor 'Q'"),
        (lambda: Schedule(pick(GEMM, "gemm", "8x8x8", "i->i, j->j, k->k"), (), (), {"M": 1}), "depth of 'M' must be in 0..0"),
        (lambda: Schedule(pick(GEMM, "gemm", "8x8x8", "i->i, j->j, k->k"), (("i", 0),)), "count of loop 'i'"),
        (lambda: allocate(schedule_from_tiles(pick(GEMM.with_bits(12), "gemm", "8x8x8", "i->i, j->j, k->k")), {t.name: Scratchpad(4096) for t in GEMM.tensors}), "12 bits wide"),
        (lambda: conv_program(reuse=Reuse.TIMELOOP), "reuse rule 'resident' or 'walk'"),
        (lambda: gemmini_program(program(schedule_from_tiles(pick(GEMM, "gemv", "8x8", "i->i, j->k")))), "Gemmini multiplies matrices"),
        (lambda: gemmini_program(program(schedule_from_tiles(pick(GEMM.with_bits(16), "gemm", "8x8x8", "i->i, j->j, k->k")))), "8-bit operands"),
        (lambda: simulate(conv_program().to_json(), {}), "array of 'A' must have shape"),
    ],
)  # fmt: skip
def test_mistakes_are_named(make, text: str) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert text in str(caught.value)


def test_unsound_choices_make_no_program() -> None:
    unsound = choices(CONV, intrinsic("gemm", "4x4x4"), unsound=True)[-1]
    with pytest.raises(UserError, match="is not sound"):
        generate_program(schedule_from_tiles(unsound), Scratchpad(4096))


class TestGemmini:
    def run(self, made: Program, memory: GemminiMemory | None = None) -> GemminiProgram:
        translated = gemmini_program(made, memory)
        assert isinstance(translated, GemminiProgram)
        computation = made.schedule.choice.computation
        inputs = random_inputs(computation, 3)
        blank = np.full(computation.output.shape(computation.sizes), 99, np.int8)
        result = simulate_gemmini(translated, inputs, (computation.output.name, blank))
        assert np.array_equal(result.output, wrapped(affine_einsum(computation, inputs), 1))
        assert result.computes == made.schedule.choice.calls
        return translated

    def test_a_matrix_product_in_full(self) -> None:
        choice = pick(GEMM.with_bounds(i=4, j=4), "gemm", "4x4x4", "i->i, j->j, k->k")
        text = str(self.run(program(schedule_from_tiles(choice, {"k": 8})), GemminiMemory(64 * 4, 64 * 16)))
        assert text.splitlines() == [
            "# 4x4 array",
            "mvin                M + 0, sp[0], cols=4, rows=4, stride=8",
            "mvin                N + 0, sp[56], cols=4, rows=4, stride=4",
            "mvin                N + 16, sp[60], cols=4, rows=4, stride=4",
            "preload             sp[56], acc[0] =, cols=4, rows=4",
            "compute_preloaded   sp[0], cols=4, rows=4",
            "mvin                M + 4, sp[4], cols=4, rows=4, stride=8",
            "preload             sp[60], acc[0] +=, cols=4, rows=4",
            "compute_preloaded   sp[4], cols=4, rows=4",
            "mvout               L + 0, acc[0], cols=4, rows=4, stride=4",
            "fence",
        ]

    def test_the_block_in_the_array_is_used_again(self) -> None:
        choice = pick(GEMM, "gemm", "4x4x4", "i->i, j->j, k->k")
        translated = self.run(program(Schedule(choice, (), (("j", 2), ("k", 2), ("i", 2)))))
        kept = [i for i in translated.instructions if isinstance(i, Preload) and i.weights is None]
        assert len(kept) == 4

    @pytest.mark.parametrize(
        ("notation", "which"),
        [
            ("C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", "i->k, j->y, k->c"),
            ("C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", "i->x, j->k, k->s"),
            ("C[x,y,k] += A[x+r,y+s,c] * B[r,s,c,k]", "i->x, j->k, k->c"),
            ("C[x,y,k] += A[2*x+r,y+s,c] * B[r,s,c,k]", "i->k, j->x, k->c"),
        ],
    )
    def test_convolutions(self, notation: str, which: str) -> None:
        computation = Computation.parse(notation, k=6, c=5, x=4, y=3, r=2, s=2, bits=8, partial_bits=32)
        choice = pick(computation, "gemm", "4x4x4", which)
        self.run(program(schedule_from_tiles(choice, {"k": 4, "x": 4, "y": 3, "r": 2, "s": 2}, ["c", "k"])))

    def test_a_window_shifts_by_rows_without_a_second_copy(self) -> None:
        computation = Computation.parse("C[x,k] += A[x+r,c] * B[r,c,k]", k=4, c=4, x=6, r=3, bits=8, partial_bits=32)
        choice = pick(computation, "gemm", "4x4x4", "i->x, j->k, k->c")
        translated = self.run(program(schedule_from_tiles(choice, {"x": 8, "r": 3})))
        moved = sum(i.rows for i in translated.instructions if isinstance(i, Mvin) and i.tensor == "A")
        assert moved == 8  # rows of the whole window, once
        assert not any(isinstance(i, HostPack) for i in translated.instructions)

    def test_what_does_not_fit_is_infeasible(self) -> None:
        assert isinstance(gemmini_program(conv_program(), GemminiMemory(64, 1 << 16)), Infeasible)
        assert isinstance(gemmini_program(conv_program(), GemminiMemory(1 << 16, 64)), Infeasible)

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (lambda p: p[1:], "scratchpad rows that were never written"),
            (lambda p: [i for i in p if not isinstance(i, Preload)], "does not fit the preload"),
            (lambda p: [i for i in p if not isinstance(i, Compute)], "accumulator rows that were never written"),
            (
                lambda p: [replace(i, accumulate=True) if isinstance(i, Preload) else i for i in p],
                "adds to accumulator rows",
            ),
            (lambda p: [replace(i, offset=999) if isinstance(i, Mvin) else i for i in p], "outside tensor"),
            (lambda p: [replace(i, cols=5) if isinstance(i, Mvin) else i for i in p], "more than one block"),
            (lambda p: [replace(i, row=999) if isinstance(i, Mvin) else i for i in p], "outside the memory"),
        ],
    )
    def test_faults_are_found(self, change, text: str) -> None:
        choice = pick(GEMM.with_bounds(i=4, j=4), "gemm", "4x4x4", "i->i, j->j, k->k")
        memory = GemminiMemory(64 * 4, 64 * 16)
        good = gemmini_program(program(schedule_from_tiles(choice, {"k": 8})), memory)
        assert isinstance(good, GemminiProgram)
        bad = replace(good, instructions=tuple(change(list(good.instructions))))
        with pytest.raises(SimulationError, match=text):
            simulate_gemmini(bad, random_inputs(choice.computation, 0), ("L", np.zeros((4, 4), np.int8)))


@pytest.mark.parametrize("output", ["O[x+r]", "O[2*x,r]", "O[x,r,x]"])
def test_an_output_that_is_no_plain_grid_makes_no_program(output: str) -> None:
    scattered = Computation.parse(f"{output} += I[x,c] * W[c,r]", x=4, r=3, c=4, bits=8, partial_bits=32)
    choice = pick(scattered, "dot", "4", "i->c")
    with pytest.raises(UserError, match="must be a dimension of its own"):
        program(schedule_from_tiles(choice))


def test_an_operand_that_is_simply_one_runs_in_a_program() -> None:
    sums = Computation.parse("O[a] += X[b,a]", a=5, b=4, bits=8, partial_bits=32)
    choice = next(c for c in choices(sums, intrinsic("gemm", "2x2x2"), partial=True) if not c.unmaskable)
    assert any(o.tensor is None for o in choice.match.operands)
    runs_right(program(schedule_from_tiles(choice, {"a": 2})))


def test_padding_that_zeros_cannot_silence_makes_no_program() -> None:
    pooling = Computation.parse("O[p] += I[p+r]", p=8, r=6, bits=8, partial_bits=32)
    choice = choices(pooling, intrinsic("S[x] += P[x+k]", "4x4"))[0]
    with pytest.raises(UserError, match="must divide the bound of r"):
        program(schedule_from_tiles(choice))
