"""`map_files`: one layer, or fused operators, in another tool's files and under that tool's rules."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, final

from codesign.core.errors import UserError, unknown_name
from codesign.core.json_types import JsonObject
from codesign.library.looptree_files import map_accelforge
from codesign.library.map_options import DEFAULT_OPTIONS, MapOptions
from codesign.library.results import AbstractResult
from codesign.library.zigzag_files import read_layer

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from codesign.mappers.loop_order.exact_orders import ExactOrders
    from codesign.mappers.loop_order.loma import LomaMapper
    from codesign.mappers.loop_order.salsa import SalsaMapper

ZIGZAG, ACCELFORGE = "zigzag", "accelforge"
_READ = {
    ZIGZAG: {"mapper", "mapper_options", "objective", "time_limit_s", "evaluations", "seed"},
    ACCELFORGE: {"mapper", "objective", "time_limit_s", "imperfect", "seed"},
}
"""Rules -> options that play a part with them."""


@final
@dataclass(frozen=True)
class MappedFiles(AbstractResult):
    """What a search under another tool's rules found.

    Args:
        document: Nest or order, energy, latency, proof; in the form of ``codesign map --semantics ... --format json``.
        certificate: What `codesign verify` needs to check it; None where no certificate covers the rules.
    """

    document: JsonObject
    certificate: JsonObject | None = None

    def to_json(self) -> JsonObject:
        """See `AbstractResult`."""
        return self.document

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        names = ("semantics", "objective", "energy_j", "latency_s", "energy_pj", "latency_cycles", "proof", "gap")
        return {name: self.document[name] for name in names if self.document.get(name) is not None}

    def rows(self) -> list[JsonObject]:
        """One row for every line of the nest; of ZigZag's rules one for every loop, innermost first."""
        nest = self.document.get("nest")
        if isinstance(nest, list):
            return [{"line": line} for line in nest]
        mapping = self.document.get("mapping")
        loops = mapping.get("loop_order_inner_to_outer", []) if isinstance(mapping, dict) else []
        return [{"dim": dim, "count": count} for dim, count in loops]

    def plot(self) -> "go.Figure":
        """The energy of the whole."""
        from codesign.report.figures import parts_figure

        energy = self.document.get("energy_j") or self.document.get("energy_pj")
        if not isinstance(energy, int | float):
            raise UserError("nothing was found that has an energy to draw")
        unit = "J" if self.document.get("energy_j") is not None else "pJ"
        return parts_figure([("whole", float(energy))], unit, "Energy")


def map_files(
    files: Sequence[str | Path],
    semantics: str,
    options: MapOptions = DEFAULT_OPTIONS,
    *,
    certify: bool = False,
) -> MappedFiles:
    """The best mapping of what another tool's files describe, under that tool's rules.

    Args:
        files: Of ZigZag: accelerator, workload and, perhaps, mapping. Of AccelForge: architecture and workload.
        semantics: ``zigzag`` (loop orders; mappers salsa, loma and exact) or ``accelforge`` (exact uneven mappings; fused where
            there are several operators).
        options: How to search; what plays no part with the rules is refused.
        certify: Whether a certificate of the optimum is made (AccelForge, one operator).

    Returns:
        The mapping, its cost and its proof.

    Raises:
        UserError: A file cannot be used, or an option plays no part with the rules.
    """
    if semantics not in _READ:
        raise unknown_name("semantics", semantics, _READ, where="map_files")
    refuse_unread(options, semantics)
    paths = [str(f) for f in files]
    if semantics == ACCELFORGE:
        return _nests(paths, options, certify)
    if certify:
        raise UserError("certificates do not cover the rules of zigzag", hint="leave out `certify`")
    return _orders(paths, options)


def refuse_unread(options: MapOptions, semantics: str) -> None:
    """Refuse what plays no part with another tool's rules.

    Raises:
        UserError: Something is given.
    """
    read = _READ[semantics] - ({"mapper_options"} if options.mapper == "exact" else set())
    for field in fields(options):
        if field.name not in read and getattr(options, field.name) != getattr(DEFAULT_OPTIONS, field.name):
            raise UserError(f"`{field.name}` plays no part with `semantics` {semantics}", hint="leave it out")
    if semantics == ACCELFORGE and options.mapper != "exact":
        raise UserError(f"the rules of accelforge need the mapper 'exact', got {options.mapper!r}")


def order_mapper(options: MapOptions) -> "ExactOrders | SalsaMapper | LomaMapper":
    """The search of loop orders that options name.

    Raises:
        UserError: It is none of them, or has no such option.
    """
    from codesign.mappers.loop_order.exact_orders import ExactOrders
    from codesign.mappers.loop_order.loma import LomaMapper
    from codesign.mappers.loop_order.salsa import SalsaMapper

    made = ExactOrders() if options.mapper == "exact" else options.made_mapper
    if not isinstance(made, ExactOrders | SalsaMapper | LomaMapper):
        raise UserError(f"the rules of zigzag need the mapper salsa, loma or exact, got {options.mapper!r}")
    return made


def _orders(files: list[str], options: MapOptions) -> MappedFiles:
    made = order_mapper(options)
    goal = options.goal
    layer, _ = read_layer(files, goal)
    found = made.map_orders(layer, goal, budget=options.budget, seed=options.seed)
    return MappedFiles({**found.to_json(), "mapper": made.name, "objective": goal.value, "semantics": ZIGZAG})


def _nests(files: list[str], options: MapOptions, certify: bool) -> MappedFiles:
    found, proof = map_accelforge(files, options, certify=certify)
    return MappedFiles(found.to_json(), proof)
