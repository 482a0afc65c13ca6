"""What every scheduler keeps: every operator once, within the buffer, the same for a seed, infeasible as a value."""

import json
import pickle
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cache
from typing import ClassVar

from codesign.arch.presets import load_preset
from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.scheduling.protocol import ScheduleProblem, Scheduler, ScheduleResult
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.load import load_network
from codesign.workloads.network import Network

NETWORK = "squeezenet"


@cache
def problem() -> ScheduleProblem:
    """A branching network of 66 operators on SoMa's edge template."""
    return ScheduleProblem(load_network(NETWORK, fuse=False), load_preset("soma-edge"))


@cache
def single_operators() -> tuple[tuple[Network, int], ...]:
    """Networks of one operator that fit any buffer, with the bytes of their weights."""
    found = []
    for dilation in (1, 2, 5):  # one output, so that nothing can be cut
        builder = NetworkBuilder(f"dilation {dilation}")
        side = 2 * dilation + 1
        image = builder.input("x", (1, 16, side, side))
        found.append((builder.build(builder.conv(image, 16, 3, padding=0, dilation=dilation)), 16 * 16 * 9))
    builder = NetworkBuilder("shared keys")  # 2 key heads, each of 4 query heads
    queries, keys = builder.input("q", (1, 2, 4, 1, 16)), builder.input("k", (1, 2, 1, 16, 64))
    found.append((builder.build(builder.matmul(queries, keys)), 0))
    builder = NetworkBuilder("wide")
    found.append((builder.build(builder.linear(builder.input("x", (1, 256)), 256, bias=False)), 256 * 256))
    return tuple(found)


class SchedulerContract(ABC):
    """Laws of `codesign.scheduling.protocol.Scheduler`."""

    budget = Budget(evaluations=500)
    """Of every search here."""

    def capacity_bytes(self) -> int:
        """Bytes of the buffer of the usual machine."""
        return self.problem().limit_bytes

    @abstractmethod
    def make(self) -> Scheduler:
        """The scheduler under test."""

    refuses: ClassVar[frozenset[str]] = frozenset()
    """Networks of `single_operators` that the scheduler says it does not know."""

    def problem(self) -> ScheduleProblem:
        """The usual problem; a scheduler with a machine of its own overrides it."""
        return problem()

    def alone(self, network: Network) -> ScheduleProblem:
        """A network of one operator on the usual machine."""
        return replace(self.problem(), network=network)

    def again(self, found: ScheduleResult) -> tuple[float | None, float | None] | None:
        """Latency in cycles and energy in pJ of a found schedule, evaluated anew from its record; None where it models neither."""
        return None

    _found: ClassVar[ScheduleResult]

    def _usual(self) -> ScheduleResult:
        """Of the usual problem, searched once for each class."""
        here = type(self)
        if "_found" not in here.__dict__:
            here._found = self._schedule(self.problem())
        return here._found

    def _schedule(self, posed: ScheduleProblem, seed: int = 1) -> ScheduleResult:
        return self.make().schedule(posed, Objective.EDP, budget=self.budget, seed=seed)

    def _is_refused(self, network: Network) -> bool:
        try:
            self._schedule(self.alone(network))
        except UserError:
            return True
        return False

    def test_it_has_a_name(self) -> None:
        """What tables and the command line call it."""
        assert self.make().name == self._usual().scheduler

    def test_every_operator_runs_once_within_the_buffer(self) -> None:
        """The order names no operator twice; the buffer never holds more than it can."""
        found = self._usual()
        assert found.infeasible is None, str(found.infeasible)
        assert len(set(found.order)) == len(found.order) > 0
        assert found.capacity_bytes == self.capacity_bytes()
        assert found.peak_buffer_bytes is not None and 0 < found.peak_buffer_bytes <= found.capacity_bytes

    def test_traffic_is_at_least_what_must_be_loaded(self) -> None:
        """The network's input is read and its output written."""
        found, network = self._usual(), self.problem().network
        assert isinstance(network, Network)  # of the problem above
        sizes = network.tensor_by_name
        least = sum(sizes[name].size_bytes for name in (*network.inputs, *network.outputs))
        assert found.dram_bytes is not None and found.dram_bytes >= least

    def test_what_fits_crosses_once(self) -> None:
        """Windows with holes, keys that heads share, and wide weights cost what they are, wherever they fit.

        A scheduler may leave weights out of its traffic, but not where it models time.
        """
        for network, weight_bytes in single_operators():
            if network.name in self.refuses:
                assert self._is_refused(network), f"{network.name} was to be refused"
                continue
            found = self._schedule(self.alone(network))
            sizes = network.tensor_by_name
            around = sum(sizes[name].size_bytes for name in (*network.inputs, *network.outputs))
            assert found.dram_bytes is not None, f"{network.name}: {found.infeasible}"
            assert found.dram_bytes - around in ({weight_bytes} if found.latency_cycles else {0, weight_bytes})

    def test_times_fit_together(self) -> None:
        """Nothing on the timeline ends after the latency, nor runs backwards."""
        found = self._usual()
        for interval in found.timeline:
            assert 0 <= interval.start_cycles <= interval.end_cycles
            assert found.latency_cycles is not None and interval.end_cycles <= found.latency_cycles

    def test_the_same_seed_gives_the_same_schedule(self) -> None:
        """Randomness is an argument."""
        both = self._usual(), self._schedule(self.problem())
        first, second = (replace(found, seconds=0.0, detail=None) for found in both)
        assert first == second

    def test_its_cost_is_the_evaluators(self) -> None:
        """The record of a schedule, evaluated anew, gives its figures."""
        found = self._usual()
        both = self.again(found)
        if both is not None:
            assert (found.latency_cycles, found.energy_pj) == both

    def test_a_time_limit_is_kept(self) -> None:
        """A search of a fifth of a second ends soon after, compiling apart."""
        began = clock.cpu_seconds()
        found = self.make().schedule(self.problem(), Objective.EDP, budget=Budget(time_limit_s=0.2), seed=1)
        assert found.infeasible is None
        assert clock.cpu_seconds() - began < 10.0

    def test_what_never_fits_is_infeasible_with_its_reason(self) -> None:
        """One byte holds nothing."""
        found = self._schedule(replace(self.problem(), capacity_bytes=1))
        assert found.infeasible is not None and found.infeasible.demand > found.infeasible.limit == 1
        assert found.order == () and found.to_json()["status"] == "infeasible"

    def test_proofs_and_gaps_agree(self) -> None:
        """Optimal is a gap of 0; without a proof there is no gap."""
        found = self._usual()
        assert (found.gap == 0.0) == (found.proof is Proof.OPTIMAL)
        assert found.proof is not Proof.NONE or found.gap is None

    def test_it_travels_between_processes(self) -> None:
        """Workers receive it by pickle; its results are JSON."""
        again: Scheduler = pickle.loads(pickle.dumps(self.make()))
        found = again.schedule(self.problem(), Objective.EDP, budget=self.budget, seed=1)
        assert found.order == self._usual().order
        assert json.loads(json.dumps(found.to_json()))["status"] == "ok"
