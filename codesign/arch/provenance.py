"""Where figures of area and energy come from: measured, published, fitted, or scaled from another node (rule T4)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from codesign.core.json_types import JsonObject


class Provenance(Enum):
    """How a figure came about, the surest first."""

    MEASURED = "measured"
    PUBLISHED = "published"
    FITTED = "fitted"
    SCALED = "scaled"


_RANK = {kind: rank for rank, kind in enumerate(Provenance)}


@dataclass(frozen=True)
class Origin:
    """Where one part of a technology's figures comes from.

    Args:
        part: ``arithmetic``, ``registers``, ``sram``, ``wires``, ``netlists`` or ``dram``.
        kind: How they came about; figures of another node are scaled whatever they were there.
        source: As the table states it.
        from_nm: The node they were stated for; None where no node counts.
    """

    part: str
    kind: Provenance
    source: str
    from_nm: float | None = None

    def to_json(self) -> JsonObject:
        """The origin as reports and records hold it."""
        return {"kind": self.kind.value, "from_nm": self.from_nm, "source": self.source}


_ENERGY = ("arithmetic", "registers", "sram", "wires", "dram")
_AREA = ("arithmetic", "registers", "sram", "wires", "netlists")


def weakest(origins: tuple[Origin, ...], parts: tuple[str, ...]) -> Provenance | None:
    """The least sure kind among some parts: a sum with a scaled term is scaled. None where there is no such part."""
    kinds = [origin.kind for origin in origins if origin.part in parts]
    return max(kinds, key=_RANK.__getitem__, default=None)


def provenance_json(technology: str | None, origins: tuple[Origin, ...]) -> JsonObject:
    """What a report says of the figures that an architecture leaves open; figures that its file gives stay the user's.

    Args:
        technology: Name of the table; None where the file gives all figures.
        origins: Of the table's parts.
    """
    if technology is None:
        return {"area": "given", "energy": "given"}
    area, energy = weakest(origins, _AREA), weakest(origins, _ENERGY)
    return {
        "technology": technology,
        "area": "unknown" if area is None else area.value,
        "energy": "unknown" if energy is None else energy.value,
        "parts": {origin.part: origin.to_json() for origin in origins},
    }


def provenance_text(technology: str | None, origins: tuple[Origin, ...]) -> str:
    """The same in a line: what is scaled, and from which node."""
    if technology is None:
        return "energy and area as the architecture's file gives them"
    some = any(origin.kind is Provenance.MEASURED for origin in origins)
    head = technology if some else f"{technology}; no figure is measured"
    return f"{head}: {_listed(origins)}" if origins else technology


def recorded_text(record: JsonObject) -> str:
    """The same line from what `provenance_json` recorded."""
    parts = record.get("parts")
    if not isinstance(parts, dict):
        return provenance_text(None, ())
    origins = []
    for part, value in parts.items():
        assert isinstance(value, dict)
        node = value.get("from_nm")
        from_nm = float(node) if isinstance(node, int | float) else None
        origins.append(Origin(part, Provenance(value["kind"]), str(value.get("source", "")), from_nm))
    if record.get("energy") == "given":
        return f"energy as the file gives it; area of {_listed(origins)}"
    return provenance_text(str(record["technology"]), tuple(origins))


def _listed(origins: Iterable[Origin]) -> str:
    return ", ".join(f"{origin.part} {origin.kind.value}{_from(origin)}" for origin in origins)


def _from(origin: Origin) -> str:
    if origin.kind is not Provenance.SCALED or origin.from_nm is None:
        return ""
    return f" from {origin.from_nm:g} nm"
