"""The sparse laws beside the interpreter on actual zeros, and the mappers' bound below every mapping (laws A, E)."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, Links, StorageLevel
from codesign.arch.sparsity import LevelSparsity, Rank, RankFormat, TensorFormat, ZeroAction, ZeroKind
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Cost, evaluate
from codesign.cost.kernel import score
from codesign.cost.packed import VALID, make_kernel
from codesign.cost.sparse.bounds import least_value, scored_problem
from codesign.cost.sparse.expectation import expect
from codesign.mappers.exact import ExactMapper
from codesign.mappers.random_search import RandomMapper
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import LevelMapping, Mapping
from codesign.mapping.nest import encode_nest
from codesign.workloads.computation import Computation
from codesign.workloads.density import Actual, Uniform
from tests.property.executed_nest import reference_result
from tests.property.zero_walk import walk_zeros

GEMM = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=4, n=4, k=6)
MAPPINGS = {
    "even": Mapping.from_levels(
        [
            LevelMapping("DRAM", ("A", "B", "C"), (("n", 2), ("m", 2))),
            LevelMapping("Buffer", ("A", "B", "C"), (("k", 3),), (("m", 2, "x"),)),
            LevelMapping("Register", ("A", "B", "C"), (("k", 2), ("n", 2))),
        ]
    ),
    "bypass": Mapping.from_levels(
        [
            LevelMapping("DRAM", ("A", "B", "C"), (("m", 2),)),
            LevelMapping("Buffer", ("A", "B", "C"), (("k", 6), ("n", 2)), (("n", 2, "x"),)),
            LevelMapping("Register", ("C",), (("m", 2),)),
        ]
    ),
}
KINDS = {"skip": ZeroKind.SKIP, "gate": ZeroKind.GATE}


def machine(
    kind: ZeroKind | None, at: str, pairs: tuple[tuple[str, str], ...], formats: bool, mac: ZeroKind | None
) -> Architecture:
    """Three levels, a fan-out of two, actions at one level."""
    coded = tuple(TensorFormat(n, (Rank(RankFormat.COORDINATES, 4),), flat=True) for n in "AB") if formats else ()
    energy = AccessEnergy(1.0, 1.0, 1.0)
    levels = []
    for name, x in (("DRAM", 1), ("Buffer", 2), ("Register", 1)):
        actions = tuple(ZeroAction(kind, f, (leader,)) for f, leader in pairs) if kind and name == at else ()
        levels.append(
            StorageLevel(
                name,
                LevelKind.DRAM if name == "DRAM" else LevelKind.SRAM,
                word_bits=8,
                energy=energy,
                read_bandwidth_words_per_cycle=4.0 if name == "DRAM" else None,
                fanout=Fanout(x, 1, Links.MULTICAST),
                sparsity=LevelSparsity(coded, actions, 4),
            )
        )
    return Architecture("small", tuple(levels), Arithmetic(energy_pj=1.0, zeros=mac))


PAIRS = [(("A", "B"),), (("B", "A"),), (("A", "B"), ("B", "A"))]
MACHINES = [
    machine(kind, at, pairs, formats, mac)
    for kind, at, pairs, formats, mac in itertools.product(
        KINDS.values(), ("Buffer", "Register"), PAIRS, (True, False), (None, ZeroKind.SKIP, ZeroKind.GATE)
    )
]


def drawn(rng: np.random.Generator, a: int, b: int) -> dict[str, np.ndarray]:
    """Operands with exactly so many non-zeros."""
    operands = {}
    for name, shape, count in (("A", (4, 6), a), ("B", (6, 4), b)):
        flat = np.zeros(24)
        flat[rng.permutation(24)[:count]] = rng.integers(1, 9, count)
        operands[name] = flat.reshape(shape)
    return operands


@pytest.mark.parametrize("name", MAPPINGS)
@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=pytest.mark.slow("oracle") if n % 2 else ()) for n in range(0, len(MACHINES), 7)],
)
@pytest.mark.thinned(5)
def test_expectation_is_the_mean_of_the_walk(name: str, number: int) -> None:
    """Over random zeros the walk's means are the expected counts, and its results are einsum's (laws A1-A4, E2-E5)."""
    architecture, mapping = MACHINES[number], MAPPINGS[name]
    densities = {"A": Uniform(0.5), "B": Uniform(0.25)}
    known = replace(GEMM, tensors=tuple(replace(t, density=densities.get(t.name, t.density)) for t in GEMM.tensors))
    expected = expect(known, architecture, mapping)
    rng = np.random.default_rng(number)
    runs = 40
    sums: dict[str, list[float]] = {}
    for _ in range(runs):
        operands = drawn(rng, 12, 6)
        walked = walk_zeros(GEMM, architecture, mapping, operands)
        assert walked.result == pytest.approx(reference_result(GEMM, operands))
        counted = {"MACs": walked.macs} | {f"{v} {t}": tally for (v, t), tally in walked.crossings.items()}
        for what, tally in counted.items():
            for fate in ("actual", "gated", "skipped"):
                sums.setdefault(f"{what} {fate}", []).append(float(getattr(tally, fate)))
    names = [v.name for v in architecture.levels]
    for x in expected.traffic:
        flow = x.updates if x.tensor == "C" else x.reads
        for fate in ("actual", "gated", "skipped"):
            seen = np.array(sums[f"{names[x.level]} {x.tensor} {fate}"])
            ours = getattr(flow.data, fate) * x.instances
            assert abs(seen.mean() - ours) <= 4.5 * seen.std() / np.sqrt(runs) + 0.02 * ours + 1e-9, (
                x.level,
                x.tensor,
                fate,
            )
    for fate in ("actual", "gated", "skipped"):
        seen, ours = np.array(sums[f"MACs {fate}"]), getattr(expected.macs, fate)
        assert abs(seen.mean() - ours) <= 4.5 * seen.std() / np.sqrt(runs) + 0.03 * ours + 1e-9, fate


def test_masks_are_exact() -> None:
    """With the data known, reads that follow single elements and MACs are counted exactly (laws D6, A7)."""
    rng = np.random.default_rng(1)
    operands = drawn(rng, 9, 13)
    known = replace(
        GEMM,
        tensors=tuple(
            replace(t, density=Actual(operands[t.name] != 0)) if t.name in operands else t for t in GEMM.tensors
        ),
    )
    architecture = machine(ZeroKind.SKIP, "Register", (("A", "B"), ("B", "A")), True, ZeroKind.SKIP)
    expected = expect(known, architecture, MAPPINGS["even"])
    walked = walk_zeros(GEMM, architecture, MAPPINGS["even"], operands)
    assert expected.macs.actual == pytest.approx(walked.macs.actual)
    for x in expected.traffic:
        if x.level == 2 and x.tensor != "C":
            assert x.reads.data.actual * x.instances == pytest.approx(walked.crossings["Register", x.tensor].actual)


@pytest.mark.parametrize("number", range(0, len(MACHINES), 9))
def test_no_mapping_beats_the_bound(number: int) -> None:
    """What mappers score is never above what a mapping costs (law E8)."""
    densities = {"A": Uniform(0.5), "B": Uniform(0.25)}
    known = replace(GEMM, tensors=tuple(replace(t, density=densities.get(t.name, t.density)) for t in GEMM.tensors))
    source = MappingProblem(known, MACHINES[number])
    for seed in range(12):
        found = RandomMapper().map(source, Objective.EDP, budget=Budget(evaluations=3), seed=seed)
        assert found.mapping is not None
        cost = evaluate(known, source.architecture, found.mapping)
        nest = encode_nest(known, source.architecture, found.mapping)
        status, energy, cycles = score(make_kernel(scored_problem(source), len(nest.loops)), nest, len(nest.loops))
        assert isinstance(cost, Cost)
        assert status == VALID
        assert energy <= cost.energy_pj * (1 + 1e-9)
        assert least_value(source, Objective.LATENCY, cycles) <= cost.latency_cycles + 1.0


def test_proofs() -> None:
    """Element-wise leaders keep the proof; leaders met as tiles say how far the bound is."""
    densities = {"A": Uniform(0.5), "B": Uniform(0.25)}
    known = replace(GEMM, tensors=tuple(replace(t, density=densities.get(t.name, t.density)) for t in GEMM.tensors))
    both = (("A", "B"), ("B", "A"))
    for kind in KINDS.values():
        source = MappingProblem(known, machine(kind, "Register", both, True, kind))
        for objective in (Objective.ENERGY, Objective.LATENCY, Objective.EDP):
            found = ExactMapper().map(source, objective, budget=Budget(), seed=0)
            assert (found.proof, found.gap) == (Proof.OPTIMAL, 0.0)
    source = MappingProblem(known, machine(ZeroKind.SKIP, "Buffer", both, True, None))
    found = ExactMapper().map(source, Objective.ENERGY, budget=Budget(), seed=0)
    assert found.proof is Proof.GAP
    assert found.gap is not None
    assert found.gap > 0.0
