"""A mesh of routers as the interconnect of one fan-out (docs/explanation/dram-and-mesh.md)."""

from dataclasses import dataclass, field

from codesign.core.checks import check_numbers
from codesign.core.errors import UserError
from codesign.core.specs import at_least

_MOST_VIRTUAL_CHANNELS = 12


@dataclass(frozen=True)
class MeshLinks:
    """The routers between a level and its children.

    Child (x, y) of the fan-out sits at node ``y * width + x``.

    Args:
        width: Nodes along x.
        height: Nodes along y.
        parents: Nodes at which the level itself is attached; a tile is spread over them in equal parts.
        trees: Whether equal words are sent as one multicast tree, and sums of one word added up on their way. Without it
            every child has packets of its own.
        flit_bits: Bits of a flit.
        packet_flits: Most flits of a packet; with trees no more than `buffer_flits`, which rules out deadlock.
        virtual_channels: Virtual channels of a port.
        buffer_flits: Flits each of them holds.
        routing_cycles: Cycles of route computation; 0 is look-ahead.
        speculative: Whether a head asks for channel and switch in one cycle.
        credit_cycles: Cycles of a credit besides its link.
        add_cycles: Cycles from the arrival of the last partial sum at a node to its sum.
    """

    width: int = field(metadata={"minimum": 1})
    height: int = field(metadata={"minimum": 1})
    parents: tuple[int, ...] = (0,)
    trees: bool = True
    flit_bits: int = at_least(1, 64)
    packet_flits: int = at_least(1, 8)
    virtual_channels: int = at_least(1, 4)
    buffer_flits: int = at_least(1, 8)
    routing_cycles: int = 1
    speculative: bool = False
    credit_cycles: int = 0
    add_cycles: int = 1

    def __post_init__(self) -> None:
        check_numbers(self, "mesh")
        if self.virtual_channels > _MOST_VIRTUAL_CHANNELS:
            raise UserError(
                f"`virtual_channels` must be <= {_MOST_VIRTUAL_CHANNELS}, got {self.virtual_channels}", where="mesh"
            )
        if not self.parents or len(set(self.parents)) != len(self.parents):
            raise UserError(f"`parents` must be different nodes, at least one, got {list(self.parents)}", where="mesh")
        for node in self.parents:
            if not 0 <= node < self.width * self.height:
                raise UserError(
                    f"`parents` must be nodes from 0 to {self.width * self.height - 1}, got {node}",
                    where=f"mesh of {self.width} x {self.height}",
                )
        if self.trees and self.packet_flits > self.buffer_flits:
            raise UserError(
                f"`packet_flits` must be <= `buffer_flits` with `trees`, got {self.packet_flits} > {self.buffer_flits}",
                where="mesh",
                hint="a branch of a tree must be able to take its whole packet, or two trees can block each other",
            )
