"""The arrays that the compiled code of the fusion search works on, by name."""

from typing import NamedTuple

from codesign.core.kernel_library import FloatArray, IntArray

Edges = tuple[IntArray, IntArray, IntArray]
"""Compressed rows: starts, layers at the other end, kinds of the edges."""


class Net(NamedTuple):
    """A network on an accelerator; the first five fields are those of `LayerGraph`.

    Attributes:
        table: Dimensions, ``layers x N_COLUMNS``.
        producers: Edges into each layer.
        consumers: Edges out of each layer.
        externals: Reads from outside: starts, inputs, their channels, bytes of those read whole.
        kinds: Number of each layer's row of the table, equal for equal rows.
        ints: `integers()` of the accelerator.
        reals: `reals()` of it.
    """

    table: IntArray
    producers: Edges
    consumers: Edges
    externals: tuple[IntArray, IntArray, IntArray, IntArray]
    kinds: IntArray
    ints: IntArray
    reals: FloatArray


class Scheme(NamedTuple):
    """A fusion scheme: its attributes over places, and what they make of each layer.

    Attributes:
        order: Layers in computing order.
        cut: `NO_CUT`, `FINE_CUT` or `DRAM_CUT` before each place; place 0 holds `DRAM_CUT`.
        tiles: Tiling number of the fine-grained group that begins at a place.
        place: The inverse of `order`.
        shape: Tile of each layer, ``layers x 6``: samples, channels, rows, columns, and the cuts of rows and columns.
        cycles: Of such a tile.
        energy: Of such a tile, pJ.
    """

    order: IntArray
    cut: IntArray
    tiles: IntArray
    place: IntArray
    shape: IntArray
    cycles: IntArray
    energy: FloatArray


class Groups(NamedTuple):
    """Where the groups of a scheme lie, for each place.

    Attributes:
        flg_end: Place behind its fine-grained group.
        lg_end: Place behind its group.
        lg_of: Number of its group.
        n_tiles: Tiles of its fine-grained group.
        step: Positions from one tile of the layer to the next.
        first: Position of its first tile.
    """

    flg_end: IntArray
    lg_end: IntArray
    lg_of: IntArray
    n_tiles: IntArray
    step: IntArray
    first: IntArray


class Inputs(NamedTuple):
    """What tiles read from DRAM besides weights.

    Attributes:
        start: Where the reads of each place begin; ``places + 1``.
        size: Bytes of each read, by every tile.
        place: Place that made what is read; ``-1 - e`` for external input e.
    """

    start: IntArray
    size: IntArray
    place: IntArray


class Loads(NamedTuple):
    """Loads by their first use.

    Attributes:
        use: Position that needs it first.
        size: Bytes.
        cycles: Of the channel.
        dep: Store that must come before, -1 for none.
        weight: 1 for weights.
    """

    use: IntArray
    size: IntArray
    cycles: IntArray
    dep: IntArray
    weight: IntArray


class Stores(NamedTuple):
    """Stores by position.

    Attributes:
        at: Position of its tile.
        size: Bytes.
        cycles: Of the channel.
        end: End of its living duration.
    """

    at: IntArray
    size: IntArray
    cycles: IntArray
    end: IntArray


class Channel(NamedTuple):
    """What moves over the DRAM channel between tiles, and when; arrays may be longer than `Extent` says.

    Attributes:
        tile_time: Cycles of each position.
        usage: Bytes that the buffer holds from position -1 on.
        loads: What is loaded.
        stores: What is stored.
        ready: Scratch, as long as `usage`.
        must: Scratch, as long as `usage`.
        start: Start of the living duration of each load.
        sequence: DRAM order: loads as their number, stores as ``-1 - number``.
    """

    tile_time: IntArray
    usage: IntArray
    loads: Loads
    stores: Stores
    ready: IntArray
    must: IntArray
    start: IntArray
    sequence: IntArray


class Extent(NamedTuple):
    """How much of a channel is filled, and how many bytes the buffer may hold."""

    tiles: int
    loads: int
    stores: int
    limit: int


class Cache(NamedTuple):
    """Tile costs met so far, a hash table.

    Attributes:
        keys: Kind of layer, samples, channels, rows and columns of the tile in each slot; -1 for an empty one.
        cycles: Of the tile.
        energy: Of the tile.
        cost: Scratch, ``tile_cost.N_COST``.
        asked: Slot, layer and key of a tile that a mapper has to price.
    """

    keys: IntArray
    cycles: IntArray
    energy: FloatArray
    cost: FloatArray
    asked: IntArray


class Scratch(NamedTuple):
    """Memory of one chain of the search.

    Attributes:
        cache: Tile costs.
        groups: Of the scheme at hand.
        inputs: Its inputs.
        outputs: ``places x 5``: number of the last store, whether stored, hold and gap of `ofmap_life`, bytes of a tile.
        channel: Its transfers.
        score: ``score_scheme.N_SCORE`` numbers.
    """

    cache: Cache
    groups: Groups
    inputs: Inputs
    outputs: IntArray
    channel: Channel
    score: IntArray
