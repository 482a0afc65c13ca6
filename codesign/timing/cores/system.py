"""A system of equal cores: an architecture, and what of its peaks an operator reaches. Every constant names its source."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, final

from codesign.arch.architecture import Architecture, LevelKind
from codesign.arch.presets import load_preset
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields
from codesign.core.files import read_structured

SYSTEMS = Path(__file__).parent / "systems"

NAMES = (
    "matrix_share",
    "dram_share",
    "cache_share",
    "cache_capacity_share",
    "step_latency_s",
    "prefetched_steps",
    "deepest_step",
    "largest_split",
    "cluster_blocks",
    "start_s",
    "hidden_s",
    "graph_gap_s",
    "vector_lanes",
    "resident_threads",
    "exponential_s",
    "row_latency_s",
    "gelu_lane_operations",
    "dispatch_matmul_s",
    "dispatch_softmax_s",
    "dispatch_layernorm_s",
    "dispatch_gelu_s",
)
"""Constants that every system has."""

LINK_NAMES = (
    "link_start_s",
    "link_bus_bytes_per_s",
    "low_latency_s",
    "low_latency_bytes_per_s",
    "middle_latency_s",
    "middle_bytes_per_s",
    "simple_latency_s",
)
"""Constants of systems whose links are known."""


@final
@dataclass(frozen=True)
class Constant:
    """One constant.

    Args:
        name: With its unit at its end.
        value: In that unit.
        source: Where it is from, or how it was fitted.
        fitted_on: Recorded rows it was fitted on, as ``op device sizes``; none where a source states it.
    """

    name: str
    value: float
    source: str
    fitted_on: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class CoreSystem:
    """Equal cores under a cache that they share, and a DRAM (rule G1).

    Args:
        name: For people.
        cores: How many.
        clock_hz: Of the cores.
        macs_per_core: Multiply-adds a core makes in a cycle.
        register_bytes: Of one core.
        local_bytes: Memory of one core that tiles and rows are held in.
        local_bytes_per_s: Its bandwidth.
        cache_bytes: Of the shared cache.
        cache_bytes_per_s: Its bandwidth, at the peak.
        dram_bytes_per_s: At the peak.
        constants: Every other figure.
    """

    name: str
    cores: int
    clock_hz: float
    macs_per_core: int
    register_bytes: float
    local_bytes: float
    local_bytes_per_s: float
    cache_bytes: float
    cache_bytes_per_s: float
    dram_bytes_per_s: float
    constants: tuple[Constant, ...]

    def constant(self, name: str) -> float:
        """The value of a constant.

        Raises:
            UserError: The system has none of that name.
        """
        for item in self.constants:
            if item.name == name:
                return item.value
        raise UserError(f"constant `{name}` is missing", where=f"system {self.name!r}")

    def has(self, name: str) -> bool:
        """Whether there is a constant of that name."""
        return any(item.name == name for item in self.constants)

    def with_constants(self, changed: dict[str, float]) -> "CoreSystem":
        """The system with other values of some constants.

        Raises:
            UserError: It has no such constant.
        """
        known = {item.name: item for item in self.constants}
        for name in changed:
            if name not in known:
                raise unknown_name("constant", name, known, where=f"system {self.name!r}")
        kept = tuple(replace(c, value=changed.get(c.name, c.value)) for c in self.constants)
        return replace(self, constants=kept)

    @property
    def macs_per_s(self) -> float:
        """Multiply-adds that one core makes in a second, at the share it reaches (rule G2)."""
        return self.macs_per_core * self.clock_hz * self.constant("matrix_share")

    @property
    def dram_rate(self) -> float:
        """Bytes a second that a large transfer reaches (rule G5)."""
        return self.dram_bytes_per_s * self.constant("dram_share")

    @property
    def cache_rate(self) -> float:
        """Bytes a second that all cores together get out of the shared cache."""
        return self.cache_bytes_per_s * self.constant("cache_share")

    @property
    def held_bytes(self) -> float:
        """Bytes of the shared cache that one core's neighbours find again."""
        return self.cache_bytes * self.constant("cache_capacity_share")


def system_names() -> tuple[str, ...]:
    """Systems that come with the project."""
    return tuple(sorted(path.stem for path in SYSTEMS.glob("*.yaml")))


@cache
def load_system(name: str) -> CoreSystem:
    """A system by name, on the preset architecture it names.

    Raises:
        UserError: There is none.
    """
    if name not in system_names():
        raise unknown_name("system of cores", name, system_names())
    return system_from_json(_table(name), load_preset(name), str(_path(name)))


def system_of(architecture: Architecture) -> CoreSystem | None:
    """The system table of an architecture's name on the figures of this architecture; None: it has no table."""
    if architecture.name not in system_names():
        return None
    name = architecture.name
    return system_from_json(_table(name), architecture, str(_path(name)))


def carried_from(name: str) -> str:
    """The table that a system's table takes the constants from that it does not give; empty where it gives all."""
    return str(_table(name).get("same_as", ""))


def _path(name: str) -> Path:
    return SYSTEMS / f"{name}.yaml"


def _table(name: str) -> Any:
    """What stands under `system:` in a table of the project."""
    return read_structured(_path(name))["system"]


def system_from_json(value: Any, architecture: Architecture, where: str) -> CoreSystem:
    """The system of what stands under `system:`, sizes and peaks taken from the architecture.

    The levels are DRAM, the shared cache with the cores under it, the local memory of a core, and its registers.
    `same_as` names the table that constants not given are taken from.

    Raises:
        UserError: A constant is missing, unknown or no number, or the levels are not these four.
    """
    constants = _constants(value, where)
    given = [item.name for item in constants]
    for name in given:
        if name not in (*NAMES, *LINK_NAMES):
            raise unknown_name("constant", name, (*NAMES, *LINK_NAMES), where=where)
    for name in NAMES if not any(n in given for n in LINK_NAMES) else (*NAMES, *LINK_NAMES):
        if name not in given:
            raise UserError(f"constant `{name}` is missing", where=where)
    if len(architecture.levels) != 4 or architecture.levels[0].kind is not LevelKind.DRAM:
        raise UserError(
            "expected the levels DRAM, shared cache, local memory and registers",
            where=f"architecture {architecture.name!r}",
        )
    return _system(architecture, constants)


def _system(architecture: Architecture, constants: tuple[Constant, ...]) -> CoreSystem:
    _dram, cached, local, registers = architecture.levels
    cores = cached.fanout.size
    parts = local.fanout.size

    def rate(index: int) -> float:
        level = architecture.levels[index]
        words, _ = level.words_per_cycle
        if words is None:
            raise UserError("the bandwidth must be given", where=f"level {level.name!r}")
        return words * level.word_bits / 8 * architecture.clock_hz

    def size(index: int) -> float:
        level = architecture.levels[index]
        if level.capacity_bytes is None:
            raise UserError("`capacity_bytes` must be given", where=f"level {level.name!r}")
        return level.capacity_bytes

    return CoreSystem(
        name=architecture.name,
        cores=cores,
        clock_hz=architecture.clock_hz,
        macs_per_core=parts * registers.fanout.size,
        register_bytes=parts * size(3),
        local_bytes=size(2),
        local_bytes_per_s=rate(2),
        cache_bytes=size(1),
        cache_bytes_per_s=rate(1),
        dram_bytes_per_s=rate(0),
        constants=constants,
    )


def _constants(value: Any, where: str) -> tuple[Constant, ...]:
    """The constants of a table, those of the table it is the same as among them."""
    fields = Fields(value, f"{where}: system")
    own = {item.name: item for item in (_constant(v, where) for v in fields.items("constants"))}
    other = fields.text("same_as", "")
    fields.finish()
    if other and other not in system_names():
        raise unknown_name("system of cores", other, system_names(), where=where)
    carried = _constants(_table(other), str(_path(other))) if other else ()
    return (*(c for c in carried if c.name not in own), *own.values())


def _constant(value: Any, where: str) -> Constant:
    fields = Fields(value, f"{where}: system, a constant")
    name = fields.text("name")
    fields.where = f"{where}: system, constant {name!r}"
    made = Constant(
        name,
        fields.number("value", least=0),
        fields.text("source"),
        tuple(str(x) for x in fields.items("fitted_on", [])),
    )
    fields.finish()
    return made
