"""A plan whose transfers from and to DRAM take the cycles that the device's banks need for their bursts.

* A6: Transfers enter in the order in which the engine starts them, one burst a clock, and hold their port until the
  last burst is taken. A load ends when its last data are there; a store is posted.
* A7: The engine says when transfers start, the device how long they take, in turn until the run's length changes by
  less than 1 %. Six rounds or 4,000,000 bursts end it; `residual` says the last change.
* A8: Ranks stand by, and refresh, to the end of the run. Energy is by command (D9).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.arch.memory_device import PagePolicy
from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray
from codesign.timing.dram.channel import CUT_SHORT as DEVICE_CUT_SHORT
from codesign.timing.dram.channel import Bursts, Served
from codesign.timing.dram.controller import serve
from codesign.timing.dram.device import DramDevice, load_device
from codesign.timing.dram.memory import DramRun, account
from codesign.timing.dram.transfers import Regions, entered_by, list_bursts, places, regions
from codesign.timing.engine import run
from codesign.timing.event_plan import LOAD, NOTHING, Plan
from codesign.timing.mapped_plan import MappedPlan

BURST_LIMIT = 2_000_000
"""Bursts of a run that are simulated; what comes after is not, and the result says so."""

BURST_WORK = 4_000_000
"""Bursts simulated in all rounds together, after which no further round begins."""

ROUNDS = 6
"""Rounds of engine and device at most."""
_LEAST_WEIGHT = 0.2
SETTLED = 1e-2
"""Change of the run's length, as a share, at which engine and device agree."""
_CYCLES_A_BURST = 10_000


@dataclass(frozen=True)
class MemoryTraffic:
    """What a mapping's transfers did to the DRAM.

    Args:
        device: Its name.
        channels: Side by side.
        served: Commands and their energy, standby to the end of the run included.
        useful_bytes: Bytes asked for; bursts bring whole ones.
        burst_bytes: Of a burst.
        elements: Elements read and written by tensor.
        rounds: How often engine and device were run in turn.
        residual: Change of the run's length in the last round, as a share.
        clock_ns: Of the device.
    """

    device: str
    channels: int
    served: DramRun
    useful_bytes: float
    burst_bytes: int
    elements: tuple[tuple[str, int, int], ...]
    rounds: int
    residual: float
    clock_ns: float

    @property
    def efficiency(self) -> float:
        """Bytes asked for, of the bytes that bursts move."""
        moved = (self.served.reads + self.served.writes) * self.burst_bytes
        return self.useful_bytes / moved if moved else 1.0

    def to_json(self) -> dict[str, object]:
        """The values that commands print as JSON."""
        served = self.served
        return {
            "device": self.device,
            "channels": self.channels,
            "cycles": served.cycles,
            "clock_ns": self.clock_ns,
            "reads": served.reads,
            "writes": served.writes,
            "activates": served.activates,
            "precharges": served.precharges,
            "refreshes": served.refreshes,
            "row_hits": served.row_hits,
            "energy_pj": dict(served.energy_pj),
            "useful_bytes": self.useful_bytes,
            "burst_bytes": self.burst_bytes,
            "useful_share_of_bursts": self.efficiency,
            "rounds": self.rounds,
            "residual": self.residual,
            "complete": served.complete,
        }


@dataclass(frozen=True)
class _Transfers:
    """The transfers in the order in which the engine starts them: process, step, start in engine cycles, engine row."""

    process: IntArray
    step: IntArray
    start: FloatArray
    row: IntArray


def device_of(architecture: Architecture) -> tuple[int, DramDevice] | None:
    """The level that names a DRAM device, and that device with the level's channels and page policy.

    Raises:
        UserError: There is no such device.
    """
    for v, level in enumerate(architecture.levels):
        if level.dram is not None:
            device = load_device(level.dram.device)
            policy = level.dram.page_policy
            is_open = device.open_page if policy is None else policy is PagePolicy.OPEN
            return v, replace(device, channels=level.dram.channels, open_page=is_open)
    return None


def with_memory(
    mapped: MappedPlan, least: FloatArray | None, operation_limit: int
) -> tuple[Plan, MemoryTraffic | None, int]:
    """The plan with listed cycles of its DRAM transfers.

    Args:
        mapped: The plan of a mapping on an architecture of which one level names a device.
        least: ``K x A`` cycles by process and way that a transfer takes at least (a mesh behind it); None: there is none.
        operation_limit: Operations of the run.

    Returns:
        The plan, what the memory did (None where nothing moves to or from it by events), operations it can run.
    """
    found_device = device_of(mapped.architecture)
    assert found_device is not None
    memory, device = found_device
    found = regions(mapped, memory)
    if not (found.tensor >= 0).any():
        return mapped.plan, None, operation_limit
    where = places(mapped, memory, device, found)
    clocks = device.clock_ns * mapped.architecture.clock_hz * 1e-9  # cycles of the engine in one of the device
    limit, current, agreement = operation_limit, mapped.plan, _Agreement()
    asked: _Asked | None = None
    served: list[Served] = []
    while True:
        transfers, length = _timeline(current, found, limit)
        if asked is None or not asked.is_of(transfers):
            bursts = list_bursts(
                found, where, transfers.process, transfers.step, current.factors[0], device.burst_bytes, BURST_LIMIT
            )
            asked = _Asked(device, _key(transfers), *bursts)
            if asked.listed < len(transfers.process):  # the list ends early: so does the run
                limit = max(1, int(transfers.row[asked.listed]))
        if agreement.reached(length):
            break
        spans, served = asked.serve(transfers, clocks, current, agreement.weight)
        current = _listed(mapped.plan, found, transfers, asked.listed, spans, least)
        agreement.simulated += len(asked.address)
    return current, _memory_traffic(mapped, memory, device, served, asked.elements, agreement, clocks), limit


@dataclass(frozen=True)
class _Asked:
    """The bursts of transfers in an order, as `list_bursts` gives them; `order` are the transfers."""

    device: DramDevice
    order: IntArray
    address: IntArray
    write: IntArray
    first: IntArray
    elements: IntArray
    listed: int

    def is_of(self, transfers: "_Transfers") -> bool:
        """Whether they are these transfers' bursts."""
        return len(self.order) == len(transfers.step) and bool((self.order == _key(transfers)).all())

    @cached_property
    def _decoded(self) -> tuple[Bursts, IntArray]:
        return self.device.bursts(self.address, self.write)

    def serve(
        self, transfers: "_Transfers", clocks: float, before: Plan, weight: float
    ) -> tuple["_Spans", list[Served]]:
        """How long the transfers take, the device's clock being `clocks` of the engine's; and what the channels did."""
        start = np.ceil(transfers.start[: self.listed] / clocks - 1e-9).astype(np.int64)
        served, accepted, done = _serve(self.device, *self._decoded, np.repeat(start, np.diff(self.first)))
        hold, whole = _spans(start, self.first, self.write, accepted, done)
        return _Spans(hold * clocks, whole * clocks, before, weight), served


def _memory_traffic(
    mapped: MappedPlan,
    memory: int,
    device: DramDevice,
    served: list[Served],
    elements: IntArray,
    agreement: "_Agreement",
    clocks: float,
) -> MemoryTraffic:
    """What all rounds left: `elements` read and written by tensor, in a run of the agreed length."""
    use = mapped.architecture.levels[memory].dram
    assert use is not None
    bits = mapped.kernel.element_bits[memory]
    return MemoryTraffic(
        use.device,
        device.channels,
        account(device, served, int(np.ceil(agreement.length / clocks))),
        float((elements.sum(axis=1) * bits).sum() / 8),
        device.burst_bytes,
        tuple((t.name, int(r), int(w)) for t, (r, w) in zip(mapped.computation.tensors, elements, strict=True)),
        agreement.rounds,
        agreement.residual,
        device.clock_ns,
    )


@dataclass
class _Agreement:
    """How far engine and device are from agreeing, and how much of a round's cycles the next one takes over (rule A7)."""

    weight: float = 1.0
    length: float = -1.0
    residual: float = 1.0
    rounds: int = 0
    simulated: int = 0
    _last: tuple[float, float] | None = None

    def reached(self, length: float) -> bool:
        """Note a run's length; whether no further round is needed, or may be made."""
        if self.rounds > 0:
            self.residual = abs(length - self.length) / max(self.length, 1.0)
            self._weigh(length)
        self.length = length
        if self.rounds >= ROUNDS or (self.rounds > 0 and (self.residual <= SETTLED or self.simulated >= BURST_WORK)):
            return True
        self.rounds += 1
        return False

    def _weigh(self, length: float) -> None:
        """Set the weight by the secant: where a longer run makes the device's part shorter, a full step overshoots."""
        answer = self.length + (length - self.length) / self.weight  # of the device to a run of the last length
        if self._last is not None and self._last[0] != self.length:
            slope = (answer - self._last[1]) / (self.length - self._last[0])
            self.weight = min(1.0, max(_LEAST_WEIGHT, 1.0 / (1.0 - min(slope, 0.0))))
        self._last = (self.length, answer)


def _key(transfers: _Transfers) -> IntArray:
    return transfers.step * (int(transfers.process.max()) + 1) + transfers.process


def _timeline(plan: Plan, found: Regions, limit: int) -> tuple[_Transfers, float]:
    """Run the engine without skipping; the DRAM transfers in order of their start."""
    _, _, _, _, counts, _ = run(plan, True, limit, np.zeros((0, 4)))
    room = np.zeros((min(int(counts.sum()), limit) + len(plan.kind) + 8, 4))
    _, cycles, _, _, _, work = run(plan, False, limit, room)
    rows = room[: int(work[2])]
    mine = np.flatnonzero(found.tensor[rows[:, 0].astype(np.int64)] >= 0)
    mine = mine[np.argsort(rows[mine, 1], kind="stable")]
    chosen = rows[mine]
    return (
        _Transfers(chosen[:, 0].astype(np.int64), chosen[:, 3].astype(np.int64), chosen[:, 1].copy(), mine),
        float(cycles),
    )


def _serve(
    device: DramDevice, bursts: Bursts, channel: IntArray, ready: IntArray
) -> tuple[list[Served], IntArray, IntArray]:
    """Serve bursts on all channels; cycle in which each is taken, and in which it is complete."""
    bursts = bursts._replace(ready=ready)
    accepted, done = np.zeros(len(ready), np.int64), np.zeros(len(ready), np.int64)
    served = []
    for c in range(device.channels):
        mine = np.flatnonzero(channel == c)
        if not len(mine):
            continue
        part = bursts
        if device.channels > 1:
            part = bursts._replace(
                **{
                    key: getattr(bursts, key)[mine]
                    for key in ("ready", "write", "rank", "group", "bank", "row", "same")
                }
            )
        limit = int(ready[-1]) + _CYCLES_A_BURST * len(mine) + _CYCLES_A_BURST
        result = serve(device.channel(), part, 0, limit)
        assert result.status != DEVICE_CUT_SHORT
        accepted[mine], done[mine] = result.accepted, result.done
        served.append(result)
    return served, accepted, done


@njit
def _spans(
    start: IntArray, first: IntArray, write: IntArray, accepted: IntArray, done: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Device cycles for which each transfer holds the port, and until its data are there.

    A transfer begins when it is started and all before it have been taken; its port is free when its last burst has been
    taken. Reads are there when they have come back, writes when they have been taken.
    """
    n = start.shape[0]
    hold, whole = np.zeros(n), np.zeros(n)
    free = 0
    for i in range(n):
        begin = max(start[i], free)
        taken, back = begin, begin
        for b in range(first[i], first[i + 1]):
            taken = max(taken, accepted[b])
            if write[b] == 0:
                back = max(back, done[b])
        free = taken
        hold[i] = taken - begin
        whole[i] = max(taken, back) - begin
    return hold, whole


@dataclass(frozen=True)
class _Spans:
    """Engine cycles of the transfers in a round, the plan of the round before, and the weight of this round."""

    hold: FloatArray
    whole: FloatArray
    before: Plan
    weight: float


def _listed(
    plan: Plan,
    found: Regions,
    transfers: _Transfers,
    listed: int,
    spans: "_Spans",
    least: FloatArray | None,
) -> Plan:
    """The plan with `durations` of the transfers; those beyond the list keep the mean of their process."""
    steps = int(np.prod(plan.factors[0]))
    explicit, share = plan.explicit.copy(), plan.share.copy()
    durations, spare, base = [], [], 0
    for k in np.flatnonzero(found.tensor >= 0):
        mine = np.flatnonzero(transfers.process[:listed] == k)
        size = int((transfers.process == k).sum()) + 1 if plan.kind[k] == LOAD else steps
        cycles, ahead = np.full(size, float(spans.whole[mine].mean()) if len(mine) else 0.0), np.zeros(size)
        at = np.arange(len(mine)) if plan.kind[k] == LOAD else transfers.step[mine]
        cycles[at] = spans.whole[mine]
        if least is not None:  # a mesh behind the device: its packets follow the first data
            ways = entered_by(transfers.step[mine], bool(found.store[k]), plan.factors[0])
            cycles[at] = np.maximum(cycles[at], least[k][ways])
        if plan.kind[k] == LOAD:
            ahead[at] = cycles[at] - spans.hold[mine]
        if spans.weight < 1.0:
            old = slice(spans.before.explicit[k], spans.before.explicit[k] + size)
            cycles = spans.weight * cycles + (1 - spans.weight) * spans.before.durations[old]
            ahead = spans.weight * ahead + (1 - spans.weight) * spans.before.aheads[old]
        explicit[k] = base
        share[k, :, :, 0] = -1.0
        base += size
        durations.append(cycles)
        spare.append(ahead)
        other = plan.resource[k, 1:]
        share[k, :, :, 1:][:, :, other == NOTHING] = 0.0
    return plan._replace(
        explicit=explicit, share=share, durations=np.concatenate(durations), aheads=np.concatenate(spare)
    )
