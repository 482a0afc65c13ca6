"""What every scheduler keeps: every operator once, within the buffer, the same for a seed, infeasible as a value."""

import json
import pickle
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cache
from typing import ClassVar

from codesign.arch.presets import load_preset
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

    @abstractmethod
    def make(self) -> Scheduler:
        """The scheduler under test."""

    _found: ClassVar[ScheduleResult]

    def _usual(self) -> ScheduleResult:
        """Of the usual problem, searched once for each class."""
        here = type(self)
        if "_found" not in here.__dict__:
            here._found = self._schedule(problem())
        return here._found

    def _schedule(self, posed: ScheduleProblem, seed: int = 1) -> ScheduleResult:
        return self.make().schedule(posed, Objective.EDP, budget=self.budget, seed=seed)

    def test_it_has_a_name(self) -> None:
        """What tables and the command line call it."""
        assert self.make().name == self._usual().scheduler

    def test_every_operator_runs_once_within_the_buffer(self) -> None:
        """The order names no operator twice; the buffer never holds more than it can."""
        found = self._usual()
        assert found.infeasible is None, str(found.infeasible)
        assert len(set(found.order)) == len(found.order) > 0
        assert found.capacity_bytes == problem().limit_bytes
        assert found.peak_buffer_bytes is not None and 0 < found.peak_buffer_bytes <= found.capacity_bytes

    def test_traffic_is_at_least_what_must_be_loaded(self) -> None:
        """The network's input is read and its output written."""
        found, network = self._usual(), problem().network
        assert isinstance(network, Network)  # of the problem above
        sizes = network.tensor_by_name
        least = sum(sizes[name].size_bytes for name in (*network.inputs, *network.outputs))
        assert found.dram_bytes is not None and found.dram_bytes >= least

    def test_what_fits_crosses_once(self) -> None:
        """Windows with holes, keys that heads share, and wide weights cost what they are, wherever they fit.

        A scheduler may leave weights out of its traffic, but not where it models time.
        """
        for network, weight_bytes in single_operators():
            found = self._schedule(ScheduleProblem(network, load_preset("soma-edge")))
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
        both = self._usual(), self._schedule(problem())
        first, second = (replace(found, seconds=0.0, detail=None) for found in both)
        assert first == second

    def test_what_never_fits_is_infeasible_with_its_reason(self) -> None:
        """One byte holds nothing."""
        found = self._schedule(replace(problem(), capacity_bytes=1))
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
        found = again.schedule(problem(), Objective.EDP, budget=self.budget, seed=1)
        assert found.order == self._usual().order
        assert json.loads(json.dumps(found.to_json()))["status"] == "ok"
