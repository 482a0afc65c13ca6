"""Technology tables as files: the built-in ones and a user's own (same fields; docs/reference/technology.md lists them)."""

import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from codesign.arch.dram import DramType
from codesign.arch.dram_power.locality import dram_type_named
from codesign.arch.logic import ArithmeticPoint, ArithmeticTable, Registers, Wires
from codesign.arch.netlists import NetlistAreas
from codesign.arch.provenance import Origin, Provenance, provenance_json
from codesign.arch.scaling import NODE_RANGE_NM, area_factor, energy_factor, wire_energy_factor
from codesign.arch.sram import AccessFit, AreaFit, FittedSram, LeakageFit, SramModel, SramStep, SteppedSram
from codesign.arch.technology import Technology
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields
from codesign.core.files import read_structured
from codesign.core.json_types import JsonObject
from codesign.core.plugins import entry_points

_FOLDER = Path(__file__).parent / "technologies"
GROUP = "codesign.technologies"
"""Entry points of this group are technologies of other packages: ``name = module:attribute``, a `Technology` or the path of its file."""

_CMOS_NAME = re.compile(r"(cmos|netlist-fitted)-(\d+(?:\.\d+)?)nm")


def technology_names() -> tuple[str, ...]:
    """The built-in tables; ``cmos-<node>nm`` and ``netlist-fitted-<node>nm`` also take any other node between 7 and 130 nm."""
    return ("cmos-22nm", "cmos-45nm", "maestro-28nm", "netlist-fitted-22nm")


def technology_beside(name: str, folder: Path) -> str:
    """What a file in `folder` means by a technology: a name as it is, a relative path counted from that folder."""
    table, plus, dram = name.partition("+")
    if plus and not (folder / name).exists():
        return technology_beside(table, folder) + plus + dram
    if name in technology_names() or _CMOS_NAME.fullmatch(name):
        return name
    path = folder / name
    return str(path.absolute()) if Path(name).suffix or path.exists() else name


def load_technology(name: str) -> Technology:
    """A technology by name or file.

    Args:
        name: One of `technology_names`, ``cmos-<node>nm``, or the path of a YAML or JSON file; ``+DEVICE@SHARE`` after it takes
            DRAM from the currents of a device and the share of bursts that find their row open (P14).

    Raises:
        UserError: No such table or device, or the file is malformed.
    """
    table, plus, device = name.partition("+")
    if plus and not Path(name).exists():
        dram = dram_type_named(device)
        found = load_technology(table)
        origins = (*(o for o in found.origins if o.part != "dram"), _dram_origin(dram))
        name = f"{found.name}+{dram.name}"
        return replace(found, name=name, dram=(*found.dram, dram), default_dram=dram.name, origins=origins)
    if name in technology_names() or _CMOS_NAME.fullmatch(name):
        return _built_in(name)
    if Path(name).suffix or Path(name).exists():
        return read_technology(name)
    others = {point.name: point for point in entry_points(GROUP)}
    if name in others:
        return _registered(name, others[name].load())
    error = unknown_name("technology", name, (*technology_names(), *others))
    families = (
        f"cmos-<node>nm with any node of {NODE_RANGE_NM[0]:g} to {NODE_RANGE_NM[1]:g} nm, or the path of a YAML file"
    )
    raise UserError(error.message, hint=f"{error.hint}; also {families}")


def _registered(name: str, found: Any) -> Technology:
    """What another package registers: a technology, or the path of its file."""
    if isinstance(found, Technology):
        return found
    if isinstance(found, str | Path):
        return read_technology(found)
    raise UserError(f"technology {name!r} must be a Technology or the path of its file, got {type(found).__name__}")


@cache
def _built_in(name: str) -> Technology:
    match = _CMOS_NAME.fullmatch(name)
    if match is None:
        return read_technology(_FOLDER / f"{name}.yaml")
    table = read_structured(_FOLDER / "cmos.yaml")["technology"]
    table |= {"name": name, "node_nm": float(match.group(2))}
    found = technology_from_json(table, f"technology {name!r}")
    if match.group(1) == "cmos":
        return found
    document = json.loads((_FOLDER / "netlists.json").read_text("utf-8"))
    gate_nm = next(o.from_nm for o in found.origins if o.part == "registers")
    logic = Origin("netlists", Provenance.SCALED, f"{document['source']}; area of the gate from registers", gate_nm)
    if gate_nm == found.node_nm:
        logic = replace(logic, kind=Provenance.FITTED)
    areas = NetlistAreas(document["source"], document["nand2"])
    return replace(found, netlists=areas, origins=(*found.origins, logic))


def read_technology(path: str | Path) -> Technology:
    """The technology of a file with one key, ``technology``.

    Raises:
        UserError: The file is missing or malformed.
    """
    fields = Fields(read_structured(path), str(path))
    value = fields.raw("technology")
    fields.finish()
    return technology_from_json(value, str(path))


def technology_from_json(value: Any, where: str = "technology") -> Technology:
    """The technology of what stands under ``technology:``. Parts given at another node are scaled to its node.

    Raises:
        UserError: A key is unknown or missing, or a value is of the wrong kind or out of range.
    """
    table = Fields(value, where)
    try:
        name = table.text("name")
        node_nm = table.number("node_nm", above=0)
        dram = _read_dram(table.items("dram", None), where)
        sram = _read_sram(table, node_nm)
        technology = Technology(
            name=name,
            node_nm=node_nm,
            sram=sram,
            arithmetic=_read_arithmetic(table.child("arithmetic"), node_nm),
            registers=_read_registers(table.child("registers"), node_nm),
            wires=_read_wires(table.child("wires"), node_nm),
            dram=dram,
            default_dram=table.text("default_dram", dram[0].name),
        )
        technology = replace(technology, origins=_origins(table, technology, sram))
    except UserError as error:
        raise (error if error.where and where in error.where else error.within(where)) from None
    table.finish()
    return technology


_KINDS = {"sram": Provenance.FITTED}
"""What parts are at their own node: CACTI's curves are fitted, the others are taken from publications."""


def _origins(table: Fields, technology: Technology, sram: SramModel) -> tuple[Origin, ...]:
    """Where the parts come from; what was stated for another node is scaled."""
    found = []
    for part in ("arithmetic", "registers", "wires"):
        section = Fields(table.raw(part), f"{table.where}, `{part}`")
        found.append(_origin(part, section.number("node_nm"), section.text("source"), technology.node_nm))
    found.append(_origin("sram", sram.node_nm, sram.source, technology.node_nm))
    found.append(_dram_origin(technology.dram_type()))
    return tuple(found)


def _origin(part: str, from_nm: float, source: str, node_nm: float) -> Origin:
    kind = _KINDS.get(part, Provenance.PUBLISHED) if from_nm == node_nm else Provenance.SCALED
    return Origin(part, kind, " ".join(source.split()), from_nm)


def _dram_origin(dram: DramType) -> Origin:
    return Origin("dram", Provenance.PUBLISHED, f"{dram.name}: {' '.join(dram.source.split())}")


def technology_origins(name: str | None) -> tuple[Origin, ...]:
    """Where the figures of a technology that an architecture names come from; empty where the table is not to be had any more."""
    if name is None:
        return ()
    try:
        return load_technology(name).origins
    except UserError:
        return ()


def provenance_of(technology: str | None) -> JsonObject:
    """What reports say of area and energy on an architecture that names this technology; None for one that names none."""
    return provenance_json(technology, technology_origins(technology))


def _read_sram(table: Fields, node_nm: float) -> SramModel:
    """The section nearest to the node, scaled to it; sections may be one or a list."""
    value = table.raw("sram")
    entries = value if isinstance(value, list) else [value]
    if not entries:
        raise UserError("`sram` must hold at least one section", where=table.where)
    models = [_read_sram_section(Fields(entry, f"{table.where}, `sram`")) for entry in entries]
    nearest = min(models, key=lambda m: abs(math.log(m.node_nm / node_nm)))
    energy, area = _factors(nearest.node_nm, node_nm)
    return replace(nearest, energy_scale=energy, area_scale=area, leakage_scale=energy)  # leakage by rule T2


def _read_sram_section(section: Fields) -> SramModel:
    node_nm, source = section.number("node_nm", above=0), section.text("source")
    model: SramModel
    if section.has("steps"):
        steps = (_read_step(Fields(item, f"{section.where}, step")) for item in section.items("steps"))
        model = SteppedSram(node_nm, source, tuple(steps))
    else:
        model = FittedSram(
            node_nm,
            source,
            area=section.child("area").record(AreaFit, 0),
            read=section.child("read").record(AccessFit, 0),
            write=section.child("write").record(AccessFit, 0),
            leakage=section.child("leakage").record(LeakageFit, 0),
        )
    section.finish()
    return model


def _read_step(item: Fields) -> SramStep:
    return item.record(SramStep, 0, up_to_bytes=item.number("up_to_bytes", None, above=0))


def _read_arithmetic(section: Fields, node_nm: float) -> ArithmeticTable:
    from_nm = section.number("node_nm", above=0)
    energy, area = _factors(from_nm, node_nm)
    table = ArithmeticTable(
        node_nm=node_nm,
        source=section.text("source"),
        add=_read_points(section, "add", energy, area),
        multiply=_read_points(section, "multiply", energy, area),
        leakage_nw_per_um2=section.number("leakage_nw_per_um2", least=0) * energy / area,
        float_add=_read_points(section, "float_add", energy, area, needed=False),
        float_multiply=_read_points(section, "float_multiply", energy, area, needed=False),
    )
    section.finish()
    return table


def _read_points(
    section: Fields, key: str, energy: float, area: float, *, needed: bool = True
) -> tuple[ArithmeticPoint, ...]:
    entries = section.items(key) if needed else section.items(key, [])
    stated = (Fields(value, f"{section.where}, `{key}`").record(ArithmeticPoint, 0) for value in entries)
    return tuple(ArithmeticPoint(p.bits, p.energy_pj * energy, p.area_um2 * area) for p in stated)


def _read_registers(section: Fields, node_nm: float) -> Registers:
    stated = section.record(Registers, 0)
    energy, area = _factors(stated.node_nm, node_nm)
    return replace(
        stated,
        node_nm=node_nm,
        energy_pj_per_bit=stated.energy_pj_per_bit * energy,
        area_um2_per_bit=stated.area_um2_per_bit * area,
        leakage_nw_per_um2=stated.leakage_nw_per_um2 * energy / area,
        gate_area_um2=stated.gate_area_um2 * area,
    )


def _read_wires(section: Fields, node_nm: float) -> Wires:
    pitch_node_nm = section.number("pitch_node_nm", None, above=0)
    stated = section.record(Wires, 0)
    return replace(
        stated,
        node_nm=node_nm,
        energy_pj_per_bit_mm=stated.energy_pj_per_bit_mm * wire_energy_factor(stated.node_nm, node_nm),
        pitch_um=stated.pitch_um * node_nm / (pitch_node_nm or stated.node_nm),
    )


def _read_dram(entries: Any, where: str) -> tuple[DramType, ...]:
    """The DRAM types of a table; those of `dram.yaml` when it has none."""
    if entries is None:
        path = _FOLDER / "dram.yaml"
        entries, where = read_structured(path)["dram"], str(path)
    if not entries:
        raise UserError("`dram` must hold at least one type", where=where)
    items = (Fields(value, f"{where}, `dram`") for value in entries)
    return tuple(item.record(DramType, 0, source=item.text("source")) for item in items)


def _factors(from_nm: float, to_nm: float) -> tuple[float, float]:
    """Factors of energy and area between nodes."""
    if from_nm == to_nm:
        return 1.0, 1.0
    return energy_factor(from_nm, to_nm), area_factor(from_nm, to_nm)
