"""The mappers by name. Each is imported only when asked for."""

from typing import Any, Final

from codesign.core.plugins import Registry
from codesign.mappers.protocol import Mapper

MAPPERS: dict[str, tuple[str, str]] = {
    "exact": (
        "codesign.mappers.exact.mapper:ExactMapper",
        "the best mapping there is, proven; with a time limit the best found and its gap",
    ),
    "genetic": ("codesign.mappers.genetic:GeneticMapper", "genetic algorithm over tilings and orders (GAMMA-like)"),
    "hybrid": (
        "codesign.mappers.hybrid:HybridMapper",
        "random tilings, their pruned orders linearly (Timeloop's hybrid)",
    ),
    "cosa": ("codesign.mappers.cosa.mapper:CosaMapper", "mixed-integer program (CoSA); option k enumerates schedules"),
    "anneal": (
        "codesign.mappers.annealing:AnnealingMapper",
        "simulated annealing over tilings, orders, spatial choices",
    ),
    "salsa": (
        "codesign.mappers.loop_order.salsa:SalsaMapper",
        "annealing of loop orders, all of them when few (SALSA)",
    ),
    "loma": ("codesign.mappers.loop_order.loma:LomaMapper", "all loop orders, factors merged to a limit (LOMA)"),
    "random": ("codesign.mappers.random_search:RandomMapper", "random mappings; the baseline of every paper"),
}
"""Name -> (module:class, one line for `--help`)."""


REGISTRY: Final[Registry[Mapper]] = Registry("mapper", "codesign.mappers", MAPPERS, {})
"""Ours, and those of other packages (group ``codesign.mappers``)."""


def create(name: str, **options: Any) -> Mapper:
    """The mapper of that name with its own options set.

    Raises:
        UserError: The name or an option is unknown.
    """
    return REGISTRY.create(name, **options)
