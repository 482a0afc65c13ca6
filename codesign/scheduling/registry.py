"""The schedulers by name. Each is imported only when asked for."""

from typing import Any, Final

from codesign.core.plugins import Registry
from codesign.scheduling.protocol import Scheduler

_SOMA = "codesign.scheduling.soma.scheduler:SomaScheduler"
_COSMA = "codesign.scheduling.cosma.scheduler:CosmaScheduler"
_FUSED = "codesign.scheduling.fused.scheduler:FusedScheduler"
_SEGMENTS = "codesign.scheduling.segments.scheduler:SegmentsScheduler"
_RULES = ("belady", "lru", "greedy")

SCHEDULERS: dict[str, tuple[str, str]] = {
    "soma": (_SOMA, "layer fusion and DRAM timing (SoMa)"),
    "soma-paper": (_SOMA, "SoMa's search as published"),
    "cocco": (_SOMA, "fusion of whole layers (Cocco)"),
    "unfused": (_SOMA, "layer by layer, double-buffered"),
    "fused": (_FUSED, "layer fusion with each operator's own mapping inside, proven (LoopTree's rules)"),
    "segments": (_SEGMENTS, "trees of pipelines on systems of many cores, with a gap (SET, Gemini)"),
    "cosma": (_COSMA, "operator order, scratchpad addresses and spills, proven (COSMA)"),
    **{rule: (_COSMA, f"the order as loaded, {rule} replacement") for rule in _RULES},
    **{f"{rule}-mpmf": (_COSMA, f"the order of least peak, {rule} replacement") for rule in _RULES},
}
"""Name -> (module:class, one line for `--help`)."""

REGISTRY: Final[Registry[Scheduler]] = Registry(
    "scheduler",
    "codesign.schedulers",
    SCHEDULERS,
    {name: {"kind": name} for name, (place, _) in SCHEDULERS.items() if place != _SEGMENTS},
)
"""Ours, and those of other packages (group ``codesign.schedulers``)."""


def create(name: str, **options: Any) -> Scheduler:
    """The scheduler of that name with its own options set.

    Raises:
        UserError: The name or an option is unknown.
    """
    return REGISTRY.create(name, **options)
