"""What every mapper keeps: valid mappings only, the same for a seed, the budget, infeasible as a value, true proofs."""

import json
import math
import pickle
from abc import ABC, abstractmethod
from functools import cache
from itertools import product

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, Ports, StorageLevel
from codesign.core.goals import OBJECTIVES, Budget, Objective, Proof
from codesign.cost.cost import evaluate
from codesign.mappers.exact import ExactMapper
from codesign.mappers.protocol import Mapper, MapResult
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.mapping.mapping import Spatial, Storage
from codesign.mapping.validate import check_mapping
from codesign.testing.recomputed_cycles import busy_cycles, is_rounded_up
from codesign.workloads.computation import Computation

COMPUTATIONS = (
    Computation.parse("O[m,n] += I[m,k] * W[k,n]", m=8, n=12, k=6),
    Computation.parse("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=4, c=2, p=4, q=4, r=3, s=3),
    Computation.parse("O[] += A[i] * B[i]", i=7),
)
"""A product, a convolution with windows, and a sum over a prime."""

WINDOWED = (
    Computation.parse("O[k,p] += I[c,p+3*r] * W[k,c,r]", k=4, c=2, p=6, r=3),
    Computation.parse("O[k,p] += I[c,2*p+r] * W[k,c,r]", k=2, c=4, p=6, r=3),
)
"""A window with holes and one that strides."""

LOCAL_BYTES = 64.0
ROUNDING = 1e-9


def machine(local_bytes: float = LOCAL_BYTES) -> Architecture:
    """Three levels, 4 x 2 PEs, DRAM of limited bandwidth."""
    energies = (AccessEnergy(100, 100, 110), AccessEnergy(3, 3.5, 3.6), AccessEnergy(0.3, 0.4, 0.4))
    return Architecture(
        "contract",
        (
            StorageLevel("DRAM", energy=energies[0], word_bits=8, read_bandwidth_words_per_cycle=4.0),
            StorageLevel("Buffer", capacity_bytes=4096, word_bits=8, energy=energies[1], fanout=Fanout(4, 2)),
            StorageLevel("Local", capacity_bytes=local_bytes, word_bits=8, energy=energies[2]),
        ),
        Arithmetic(energy_pj=0.2),
    )


def ported(ports: Ports) -> Architecture:
    """Three levels with limited ports, the innermost one's the narrowest; every level may keep every tensor."""
    energies = (AccessEnergy(90, 95, 100), AccessEnergy(4, 5, 5), AccessEnergy(0.5, 0.7, 0.6))
    sizes, reads, writes = (None, 40.0, 8.0), (1.0, 1.0, 0.5), (1.0, 2.0, 0.25)
    fanouts = (Fanout(), Fanout(2, 2), Fanout())
    levels = (
        StorageLevel(
            name, capacity_bytes=size, word_bits=8, energy=energy, fanout=fanout, ports=ports,
            read_bandwidth_words_per_cycle=read, write_bandwidth_words_per_cycle=write,
        )
        for name, size, energy, fanout, read, write in zip(
            ("DRAM", "Buffer", "Local"), sizes, energies, fanouts, reads, writes, strict=True
        )
    )  # fmt: skip
    return Architecture("ported", tuple(levels), Arithmetic(energy_pj=0.2))


@cache
def proven_edp(computation: Computation, ports: Ports, free_bypass: bool) -> float:
    """The least energy-delay product on `ported`."""
    posed = MappingProblem(computation, ported(ports), Constraints(free_bypass=free_bypass))
    best = ExactMapper().map(posed, Objective.EDP, budget=Budget(), seed=0)
    assert best.cost is not None and best.proof is Proof.OPTIMAL
    return best.cost.edp


class MapperContract(ABC):
    """Laws of `codesign.mappers.protocol.Mapper`."""

    budget = Budget(evaluations=300)
    """Of every search here."""

    @abstractmethod
    def make(self) -> Mapper:
        """The mapper under test."""

    def _map(self, problem: MappingProblem, objective: Objective = Objective.EDP, seed: int = 1) -> MapResult:
        return self.make().map(problem, objective, budget=self.budget, seed=seed)

    def test_it_has_a_name(self) -> None:
        """What tables and the command line call it."""
        assert self.make().name

    def test_mappings_are_valid_and_cost_what_is_said(self) -> None:
        """The kernel gives the same cost for the mapping that is returned."""
        for computation in COMPUTATIONS:
            for objective in OBJECTIVES:
                problem = MappingProblem(computation, machine())
                found = self._map(problem, objective)
                assert found.mapping is not None and found.cost is not None, f"no mapping of {computation}"
                check_mapping(computation, problem.architecture, found.mapping)
                again = evaluate(computation, problem.architecture, found.mapping)
                assert again == found.cost

    def test_the_same_seed_gives_the_same_mapping(self) -> None:
        """Randomness is an argument."""
        problem = MappingProblem(COMPUTATIONS[1], machine())
        first, second = self._map(problem, seed=3), self._map(problem, seed=3)
        assert (first.mapping, first.evaluated) == (second.mapping, second.evaluated)

    def test_no_mapping_beats_the_proven_optimum_and_proofs_are_true(self) -> None:
        """A better one would be one of another problem; a proof must name the optimum."""
        for computation in COMPUTATIONS:
            problem = MappingProblem(computation, machine())
            best = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0)
            found = self._map(problem)
            assert best.cost is not None and found.cost is not None
            assert found.cost.edp >= best.cost.edp * (1 - ROUNDING)
            if found.proof is Proof.OPTIMAL:
                assert found.gap == 0 and found.cost.edp <= best.cost.edp * (1 + ROUNDING)
            if found.proof is Proof.GAP:
                assert found.gap is not None and found.cost.edp <= best.cost.edp * (1 + found.gap + ROUNDING)

    def test_cycles_follow_from_accesses_behind_windows_and_limited_ports(self) -> None:
        """Half and full duplex ports, windows with holes and strides, keep sets given and free: no cycle is made up."""
        for computation, ports, free in product(WINDOWED, Ports, (False, True)):
            problem = MappingProblem(computation, ported(ports), Constraints(free_bypass=free))
            found = self._map(problem)
            assert found.mapping is not None and found.cost is not None, f"no mapping of {computation}"
            assert evaluate(computation, problem.architecture, found.mapping) == found.cost
            busy = busy_cycles(computation, problem.architecture, found.cost)
            assert all(is_rounded_up(level.busy_cycles, busy[level.level]) for level in found.cost.levels)
            slowest = max(found.cost.compute_cycles, *(level.busy_cycles for level in found.cost.levels))
            assert found.cost.latency_cycles == slowest
            assert found.cost.edp >= proven_edp(computation, ports, free) * (1 - ROUNDING)

    def test_the_budget_is_kept(self) -> None:
        """No more mappings are scored than were allowed, unless the result is proven."""
        problem = MappingProblem(COMPUTATIONS[1], machine())
        found = self.make().map(problem, Objective.EDP, budget=Budget(evaluations=50), seed=0)
        assert found.evaluated <= 50 or found.proof is Proof.OPTIMAL

    def test_what_never_fits_is_infeasible_with_its_reason(self) -> None:
        """Infeasible is a value: the resource, the demand and the limit."""
        found = self._map(MappingProblem(COMPUTATIONS[0], machine(local_bytes=2)))
        assert found.mapping is None and found.cost is None and found.infeasible is not None
        assert found.infeasible.demand > found.infeasible.limit

    def test_constraints_are_obeyed(self) -> None:
        """A bypass and a kept tensor at one level, spatial factors at another."""
        rules = LevelConstraints("Buffer", keep=frozenset({"I", "O"}), bypass=frozenset({"W"}), spatial=(("n", 4),))
        found = self._map(MappingProblem(COMPUTATIONS[0], machine(), Constraints((rules,))))
        assert found.mapping is not None
        assert Storage("W", "Buffer") not in found.mapping.nodes
        assert {Storage("I", "Buffer"), Storage("O", "Buffer")} <= set(found.mapping.nodes)
        unrolled = [loop for loop in found.mapping.loops if isinstance(loop, Spatial) and loop.level == "Buffer"]
        assert math.prod(loop.factor for loop in unrolled if loop.dim == "n") == 4

    def test_it_travels_between_processes(self) -> None:
        """Workers receive it by pickle; its results are JSON."""
        again: Mapper = pickle.loads(pickle.dumps(self.make()))
        problem = MappingProblem(COMPUTATIONS[0], machine())
        found = again.map(problem, Objective.EDP, budget=self.budget, seed=1)
        assert found.mapping == self._map(problem).mapping
        assert json.loads(json.dumps(found.to_json()))["status"] == "ok"
