"""Areas of logic in a library of standard cells: netlist-fitted counts told apart by what libraries price differently (N8).

* N8: In a library of standard cells flip-flops, full adders and the rest (in two-input NANDs) are priced by its own
  cells. An n-bit multiplier has `n (n - 1)` full adders, a sum one a bit. The table holds OSU
  180 nm, ASAP7, Nangate 45 and SkyWater 130.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from codesign.arch.netlists import OPERAND_BITS, SUM_BITS, NetlistAreas
from codesign.arch.provenance import Provenance
from codesign.arch.scaling import area_factor
from codesign.core.errors import unknown_name

_TABLE = Path(__file__).with_name("cell_libraries.json")
FITTED_LIBRARY = "osu018"
"""The library of the netlists that the constants are fitted to."""


@dataclass(frozen=True)
class CellLibrary:
    """Areas of three cells of a library.

    Args:
        name: Of the library.
        node_nm: Its node.
        nand2_um2: The least two-input NAND that place and route may use.
        flip_flop_um2: A D flip-flop.
        full_adder_um2: A full adder.
        source: Of the figures.
        kind: Published by the library, or scaled from another one.
    """

    name: str
    node_nm: float
    nand2_um2: float
    flip_flop_um2: float
    full_adder_um2: float
    source: str
    kind: Provenance = Provenance.PUBLISHED

    def scaled(self, node_nm: float) -> "CellLibrary":
        """The same cells at another node, all by the area factor of T1."""
        factor = area_factor(self.node_nm, node_nm)
        return CellLibrary(
            f"{self.name} at {node_nm:g} nm",
            node_nm,
            self.nand2_um2 * factor,
            self.flip_flop_um2 * factor,
            self.full_adder_um2 * factor,
            self.source,
            Provenance.SCALED,
        )


@cache
def cell_libraries() -> dict[str, CellLibrary]:
    """The libraries of the project by name."""
    entries = json.loads(_TABLE.read_text("utf-8"))["libraries"]
    return {entry["name"]: CellLibrary(**entry) for entry in entries}


def cell_library(name: str) -> CellLibrary:
    """A library by name.

    Raises:
        UserError: There is none.
    """
    known = cell_libraries()
    if name not in known:
        raise unknown_name("cell library", name, known)
    return known[name]


@dataclass(frozen=True)
class LogicCount:
    """Logic told apart.

    Args:
        flip_flops: So many.
        full_adders: Of multipliers and sums.
        nand2: Everything else, in two-input NANDs of the fitted library.
    """

    flip_flops: float
    full_adders: float
    nand2: float

    def area_um2(self, library: CellLibrary) -> float:
        """In a library's own cells (N8)."""
        return (
            self.flip_flops * library.flip_flop_um2
            + self.full_adders * library.full_adder_um2
            + self.nand2 * library.nand2_um2
        )


def mesh_element(areas: NetlistAreas, sum_bits: int, flip_flops: float) -> LogicCount:
    """One element of a weight-stationary mesh that hands its sum on (N8).

    N1's element and its handed sum, narrowed from `SUM_BITS`; of an n-bit multiplier ``n (n - 1)`` full adders, of the sum one a bit.

    Args:
        areas: Fitted constants.
        sum_bits: Of the sum that is handed on.
        flip_flops: Of one element, as its generator states.
    """
    constants = areas.nand2["element"]
    whole = constants["element"] + constants["handed sum"] * sum_bits / SUM_BITS
    full_adders = OPERAND_BITS * (OPERAND_BITS - 1) + sum_bits
    fitted = cell_library(FITTED_LIBRARY)
    apart = flip_flops * fitted.flip_flop_um2 + full_adders * fitted.full_adder_um2
    return LogicCount(flip_flops, full_adders, whole - apart / fitted.nand2_um2)
