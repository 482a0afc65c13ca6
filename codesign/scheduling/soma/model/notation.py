"""The tensor-centric notation: six attributes that say how a network runs, as immutable values with text and JSON forms.

Fusion attributes (LFA): computing order, fine-grained cuts, tiling numbers, DRAM cuts. DRAM attributes (DLSA): order of the
DRAM tensors and the living duration of each. Without DRAM attributes the double-buffer defaults hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.core.kernel_library import IntArray
from codesign.scheduling.soma.model.layer_graph import LayerGraph


class Status(Enum):
    """Why a scheme cannot run; the values are the names the reference data use."""

    SUCCESS = "SUCCESS"
    LAYER_ORDER_DEPENDENCY = "LAYER_ORDER_DEPENDENCY"
    TILE_NUMBER_TOO_LARGE = "TILE_NUMBER_TOO_LARGE"
    NO_INTRA_CORE_MAPPING = "NO_INTRA_CORE_MAPPING"
    BUFFER_OVERFLOW = "BUFFER_OVERFLOW"
    TENSOR_ORDER_DEPENDENCY = "TENSOR_ORDER_DEPENDENCY"
    LOAD_BEFORE_STORE = "LOAD_BEFORE_STORE"


STATUS_BY_CODE = tuple(Status)


@dataclass(frozen=True)
class FusionScheme:
    """The fusion attributes.

    Args:
        order: Layer ids in computing order.
        dram_cuts: Places where a group (LG) starts; holds 0.
        fine_cuts: Further places where a fine-grained group (FLG) starts.
        tiling: Tiling number of each fine-grained group, in order.
    """

    order: tuple[int, ...]
    dram_cuts: tuple[int, ...]
    fine_cuts: tuple[int, ...]
    tiling: tuple[int, ...]

    def __post_init__(self) -> None:
        n = len(self.order)
        if sorted(self.order) != list(range(n)):
            raise UserError(f"`layer_order_to_id` must name each layer 0..{n - 1} once")
        for name, cuts in (("layer_group_partition", self.dram_cuts), ("sub_layer_group_partition", self.fine_cuts)):
            if list(cuts) != sorted(set(cuts)) or any(not 0 <= c < n for c in cuts):
                raise UserError(f"`{name}` must be increasing places 0..{n - 1}, got {list(cuts)}")
        if not self.dram_cuts or self.dram_cuts[0] != 0:
            raise UserError("`layer_group_partition` must begin with 0")
        both = set(self.dram_cuts) & set(self.fine_cuts)
        if both:
            raise UserError(f"place {min(both)} is in both `layer_group_partition` and `sub_layer_group_partition`")
        groups = len(self.dram_cuts) + len(self.fine_cuts)
        if len(self.tiling) != groups or any(t < 1 for t in self.tiling):
            raise UserError(
                f"`tile_numbers` must be {groups} integers >= 1, one per fine-grained group, got {list(self.tiling)}"
            )

    @property
    def starts(self) -> tuple[int, ...]:
        """Places where fine-grained groups start."""
        return tuple(sorted((*self.dram_cuts, *self.fine_cuts)))

    def arrays(self) -> tuple[IntArray, IntArray, IntArray]:
        """`order`, `cut` and `tiles` as the compiled code reads them."""
        n = len(self.order)
        cut = np.zeros(n, np.int64)
        tiles = np.ones(n, np.int64)
        cut[list(self.fine_cuts)] = 1
        cut[list(self.dram_cuts)] = 2
        tiles[list(self.starts)] = self.tiling
        return np.array(self.order, np.int64), cut, tiles

    def to_json(self) -> dict[str, list[int]]:
        """The reference data's form."""
        return {
            "layer_order_to_id": list(self.order),
            "layer_group_partition": list(self.dram_cuts),
            "sub_layer_group_partition": list(self.fine_cuts),
            "tile_numbers": list(self.tiling),
        }


def fusion_from_arrays(order: IntArray, cut: IntArray, tiles: IntArray) -> FusionScheme:
    """The scheme in the compiled code's arrays."""
    starts = np.flatnonzero(cut)
    return FusionScheme(
        tuple(order.tolist()),
        tuple(np.flatnonzero(cut == 2).tolist()),
        tuple(np.flatnonzero(cut == 1).tolist()),
        tuple(tiles[starts].tolist()),
    )


@dataclass(frozen=True)
class DramScheme:
    """The DRAM attributes, by tensor number (numbering: layers in computing order, inputs, weights, outputs).

    Args:
        order: Numbers of the DRAM tensors in the order the channel takes them; None keeps the default order.
        durations: (tensor, start, end) where they differ from the default; None keeps that side.
    """

    order: tuple[int, ...] | None = None
    durations: tuple[tuple[int, int | None, int | None], ...] = ()


@dataclass(frozen=True)
class Encoding:
    """All six attributes of one scheme."""

    fusion: FusionScheme
    dram: DramScheme = DramScheme()
    name: str = "scheme"

    def to_json(self) -> JsonObject:
        """The reference data's form."""
        edits = []
        for tensor, start, end in self.dram.durations:
            edit: dict[str, int] = {"tensor": tensor}
            if start is not None:
                edit["start"] = start
            if end is not None:
                edit["end"] = end
            edits.append(edit)
        value: JsonObject = {"name": self.name, "enc": self.fusion.to_json(), "edits": edits}
        if self.dram.order is not None:
            value["order"] = list(self.dram.order)
        return value


def _integers(raw: Any, key: str, where: str) -> tuple[int, ...]:
    value = raw.get(key)
    if value is None and key == "sub_layer_group_partition":
        return ()
    if not isinstance(value, Sequence) or not all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        raise UserError(f"`{key}` must be a list of integers, got {value!r}", where=where)
    return tuple(value)


def encoding_from_json(raw: Any, graph: LayerGraph, where: str) -> Encoding:
    """One encoding: `{"name", "enc", "edits", "order"}`, or the inner `enc` object alone.

    Raises:
        UserError: A field is malformed or the encoding belongs to another network.
    """
    if not isinstance(raw, Mapping):
        raise UserError(f"an encoding must be an object, got {raw!r}", where=where)
    body = raw.get("enc", raw)
    if not isinstance(body, Mapping):
        raise UserError(f"`enc` must be an object, got {body!r}", where=where)
    name = str(raw.get("name", "scheme"))
    place = f"{where}: {name}"
    keys = ("layer_order_to_id", "layer_group_partition", "sub_layer_group_partition", "tile_numbers")
    lists = [_integers(body, key, place) for key in keys]
    if len(lists[0]) != len(graph.layers):
        raise UserError(
            f"the encoding orders {len(lists[0])} layers, network {graph.name!r} has {len(graph.layers)}",
            where=place,
            hint="it was made for another network",
        )
    try:
        fusion = FusionScheme(*lists)
    except UserError as error:
        raise error.within(place) from None
    order = _integers(raw, "order", place) if raw.get("order") is not None else None
    return Encoding(fusion, DramScheme(order, _edits(raw.get("edits") or (), place)), name)


def _edits(raw: Iterable[Any], where: str) -> tuple[tuple[int, int | None, int | None], ...]:
    edits = []
    for edit in raw:
        if not isinstance(edit, Mapping) or not isinstance(edit.get("tensor"), int):
            raise UserError(f'an edit must be an object with "tensor", "start", "end", got {edit!r}', where=where)
        unknown = set(edit) - {"tensor", "start", "end"}
        if unknown:
            raise UserError(
                f"unknown key {sorted(unknown)[0]!r} in an edit", where=where, hint="known: tensor, start, end"
            )
        for side in ("start", "end"):
            if edit.get(side) is not None and not isinstance(edit[side], int):
                raise UserError(f"`{side}` must be an integer, got {edit[side]!r}", where=where)
        edits.append((edit["tensor"], edit.get("start"), edit.get("end")))
    return tuple(edits)


def encodings_from_json(raw: Any, graph: LayerGraph, where: str) -> list[Encoding]:
    """Every encoding in a parsed file: a list, one object, or an object with `results`."""
    if isinstance(raw, Mapping):
        raw = raw["results"] if isinstance(raw.get("results"), list) else [raw.get("encoding", raw)]
    if not isinstance(raw, list) or not raw:
        raise UserError("expected a list of encodings", where=where)
    return [encoding_from_json(item, graph, f"{where}[{i}]") for i, item in enumerate(raw)]
