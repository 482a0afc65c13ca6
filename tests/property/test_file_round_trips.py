"""Whatever is written can be read back: random architectures, problems, even mappings and constraints, in both forms."""

import math

from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from codesign.arch.architecture import (
    AccessEnergy,
    Architecture,
    Arithmetic,
    Fanout,
    LevelKind,
    Links,
    Ports,
    StorageLevel,
)
from codesign.arch.files import architecture_from_json, architecture_to_json
from codesign.core.errors import UserError
from codesign.cost.cost import Cost, evaluate
from codesign.formats.documents import dump_yaml, parse_yaml
from codesign.formats.timeloop.architecture import architecture_from_timeloop
from codesign.formats.timeloop.architecture_writer import architecture_to_timeloop, energy_table_of
from codesign.formats.timeloop.energy_table import apply_energy_table
from codesign.formats.timeloop.mapping import mapping_from_timeloop
from codesign.formats.timeloop.problem import computation_from_timeloop, computation_to_timeloop
from codesign.mapping.constraints import Constraints, LevelConstraints
from codesign.mapping.files import constraints_from_json, constraints_to_json, mapping_from_json, mapping_to_json
from codesign.mapping.mapping import Axis, LevelMapping, Mapping
from codesign.mapping.validate import check_mapping
from codesign.workloads.computation import Computation
from codesign.workloads.files import computation_from_json, computation_to_json
from tests.timeloop_reference import mapping_to_timeloop

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

NOTATIONS = (
    "Z[M,N] += A[M,K] * B[K,N]",
    "Outputs[K,P] += Inputs[C,2*P+3*R] * Weights[K,C,R]",
    "O[n,kk,pp] += I[n,c,pp+r] * W[kk,c,r] * S[kk]",
    "Y[] += A[i] * B[i]",
)
positive = st.floats(0.001, 1e6, allow_nan=False).map(lambda x: round(x, 6))
maybe_positive = st.none() | positive


@st.composite
def computations(draw: st.DrawFn) -> Computation:
    notation = draw(st.sampled_from(NOTATIONS))
    dims = {d for d in ("M", "N", "K", "P", "C", "R", "n", "kk", "pp", "c", "r", "i") if _uses(notation, d)}
    bounds = {d: draw(st.sampled_from((1, 2, 3, 4, 6, 8, 12))) for d in sorted(dims)}
    return Computation.parse(
        notation, bounds, bits=draw(st.sampled_from((4, 8, 16))), partial_bits=draw(st.sampled_from((16, 24)))
    )


def _uses(notation: str, dim: str) -> bool:
    import re

    return re.search(rf"(?<![A-Za-z]){dim}(?![A-Za-z\[])", notation) is not None


@st.composite
def architectures(draw: st.DrawFn, *, plain: bool) -> Architecture:
    """With `plain`, only what Timeloop's form can say: one element per word, multicast, all tensors."""
    levels = []
    for i in range(draw(st.integers(1, 4))):
        bits = draw(st.sampled_from((8, 16, 24)))
        energy = AccessEnergy(draw(positive), draw(positive), draw(positive))
        links = Links.MULTICAST if plain else draw(st.sampled_from(tuple(Links)))
        fanout = Fanout(draw(st.integers(1, 4)), draw(st.integers(1, 4)), links, 0.0 if plain else draw(positive))
        capacity = None if i == 0 else draw(st.integers(1, 4096)) * bits / 8
        levels.append(
            StorageLevel(
                name=f"L{i}",
                kind=LevelKind.DRAM if i == 0 else LevelKind.SRAM if plain else draw(st.sampled_from(tuple(LevelKind))),
                capacity_bytes=capacity,
                word_bits=bits,
                one_element_per_word=plain or draw(st.booleans()),
                keep=frozenset(
                    {"input", "weight", "output"} if plain else draw(st.sets(st.sampled_from(("input", "W", "output"))))
                ),
                read_bandwidth_words_per_cycle=draw(maybe_positive),
                write_bandwidth_words_per_cycle=draw(maybe_positive),
                ports=Ports.SEPARATE if plain else draw(st.sampled_from(Ports)),
                banks=1 if plain else draw(st.integers(1, 8)),
                energy=energy if plain else draw(st.sampled_from((energy, None))),
                area_mm2=None if plain else draw(maybe_positive),
                leakage_mw=None if plain else draw(maybe_positive),
                fanout=fanout,
            )
        )
    mac = Arithmetic(
        bits=draw(st.sampled_from((8, 16))), energy_pj=draw(positive), name=draw(st.sampled_from(("MAC", "pe")))
    )
    return Architecture("made", tuple(levels), mac, clock_hz=1e9 if plain else draw(positive))


@st.composite
def mappings(draw: st.DrawFn, computation: Computation, architecture: Architecture) -> Mapping:
    """An even mapping that keeps everything at the outermost level."""
    left = dict(computation.sizes)
    levels = []
    last = architecture.levels[-1]
    for level in architecture.levels:
        kept = [t.name for t in computation.tensors if level is architecture.levels[0] or draw(st.booleans())]
        temporal, spatial = [], []
        room = {"x": level.fanout.x, "y": level.fanout.y}
        axes: tuple[Axis, Axis] = ("x", "y")
        for dim in draw(st.permutations(computation.dims)):
            factor = left[dim] if level is last else draw(st.sampled_from(_divisors(left[dim])))
            left[dim] //= factor
            temporal.append((dim, factor))
        for axis in axes:
            for dim in computation.dims:
                factor = draw(st.sampled_from(_divisors(left[dim])))
                if factor > 1 and factor <= room[axis] and all(d != dim for d, _, _ in spatial):
                    spatial.append((dim, factor, axis))
                    room[axis] //= factor
                    left[dim] //= factor
        levels.append(LevelMapping(level.name, tuple(kept), tuple(temporal), tuple(spatial)))
    return Mapping.from_levels(levels)


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def through_text(value: object) -> object:
    (again,) = parse_yaml(dump_yaml(value), "text")
    return again


@SETTINGS
@given(architectures(plain=False))
def test_own_architectures(architecture: Architecture) -> None:
    assert architecture_from_json(through_text(architecture_to_json(architecture))) == architecture


@SETTINGS
@given(computations())
def test_problems(computation: Computation) -> None:
    assert computation_from_json(through_text(computation_to_json(computation))) == computation
    again = computation_from_timeloop(through_text(computation_to_timeloop(computation)))
    assert (str(again), again.sizes) == (str(computation), computation.sizes)


@SETTINGS
@given(st.data())
def test_mappings_and_their_costs_survive_timeloops_form(data: st.DataObject) -> None:
    architecture = data.draw(architectures(plain=True))
    computation = data.draw(computations()).with_bits(8)
    mapping = data.draw(mappings(computation, architecture))
    check_mapping(computation, architecture, mapping)
    assert mapping_from_json(through_text(mapping_to_json(mapping))) == mapping
    bits = {level.name: level.word_bits for level in architecture.levels}
    machine = architecture_from_timeloop(through_text(architecture_to_timeloop(architecture, bits)))
    machine = apply_energy_table(machine, through_text(energy_table_of(architecture, bits)))
    problem = computation_from_timeloop(through_text(computation_to_timeloop(computation)))
    try:
        written = mapping_to_timeloop(mapping, computation, architecture)
    except UserError as error:  # loops of a level that keeps nothing join those of the level outside it
        assert "a dimension has two loops" in str(error)
        reject()
    nest = mapping_from_timeloop(through_text(written), problem, machine)
    before, after = evaluate(computation, architecture, mapping), evaluate(problem, machine, nest)
    if not isinstance(before, Cost) or not isinstance(after, Cost):
        assert type(before) is type(after)
        return
    assert after.latency_cycles == before.latency_cycles
    assert math.isclose(after.energy_pj, before.energy_pj, rel_tol=1e-12)
    assert [[(t.tensor, t.reads, t.fills, t.updates) for t in v.tensors] for v in after.levels] == [
        [(t.tensor, t.reads, t.fills, t.updates) for t in v.tensors] for v in before.levels
    ]


names = st.frozensets(st.sampled_from(("A", "B", "Z")))
factors = st.dictionaries(st.sampled_from(("M", "N", "K")), st.integers(1, 9)).map(lambda d: tuple(d.items()))


@SETTINGS
@given(
    st.lists(
        st.builds(
            lambda level, keep, free, temporal, spatial, order, x: LevelConstraints(
                level, keep, free - keep, temporal, spatial, tuple(order), x
            ),
            st.sampled_from(("L0", "L1", "L2")),
            names,
            names,
            factors,
            factors,
            st.permutations("MNK"),
            st.none() | names,
        ),
        unique_by=lambda item: item.level,
    ),
    st.booleans(),
)
def test_own_constraints(levels: list[LevelConstraints], free: bool) -> None:
    constraints = Constraints(tuple(levels), free)
    assert constraints_from_json(through_text(constraints_to_json(constraints))) == constraints
