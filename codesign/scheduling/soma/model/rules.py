"""Which model of the hardware a schedule is scored with: the published one, or the one with its defects mended.

Each mend is one named switch. `REFERENCE` has none and equals the published program; `DEFAULT` has all.
"""

from dataclasses import dataclass, fields

# Bits of `ModelOptions.flags`, read by the compiled code.
INTERIOR_HALOS, CHANNEL_CLAMP, VECTOR_TRAFFIC, ATTENTION_BANDWIDTH, STRIDED_READS, STORE_BEFORE_LOAD = (
    1,
    2,
    4,
    8,
    16,
    32,
)
# One more bit of the compiled code's flags: matrix tiles are priced outside it, by a mapper.
MAPPED_TILES = 64
WHOLE_OUTPUTS = 128


@dataclass(frozen=True)
class ModelOptions:
    """Named switches of the model.

    Args:
        interior_halos: Size the input of a tile by its worst position, not by the tile at the origin.
        channel_clamp: A producer computes its own channels, not those of the concatenation it feeds.
        vector_traffic: Vector layers pay global-buffer energy and wait for its bandwidth.
        attention_bandwidth: Attention products wait for the global buffer like every other product.
        strided_reads: A strided layer reads its input extent from the buffer, not its output extent.
        store_before_load: Data must be stored by its producer before a consumer in another group loads it.
        whole_outputs: A layer that is read outside its fine-grained group too computes all of its output there.
    """

    interior_halos: bool = True
    channel_clamp: bool = True
    vector_traffic: bool = True
    attention_bandwidth: bool = True
    strided_reads: bool = True
    store_before_load: bool = True
    whole_outputs: bool = True

    @property
    def flags(self) -> int:
        """The switches as bits."""
        bits = (
            INTERIOR_HALOS,
            CHANNEL_CLAMP,
            VECTOR_TRAFFIC,
            ATTENTION_BANDWIDTH,
            STRIDED_READS,
            STORE_BEFORE_LOAD,
            WHOLE_OUTPUTS,
        )
        return sum(bit for bit, field in zip(bits, fields(self), strict=True) if getattr(self, field.name))


REFERENCE = ModelOptions(False, False, False, False, False, False, False)
DEFAULT = ModelOptions()
MODES = {"reference": REFERENCE, "default": DEFAULT}
