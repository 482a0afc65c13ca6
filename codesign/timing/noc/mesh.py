"""A 2-D mesh: its parameters and its simulation."""

from dataclasses import dataclass

from codesign.core.errors import UserError
from codesign.cost.mesh import PORTS
from codesign.timing.noc.router import Delivery, Traffic, simulate_mesh
from codesign.timing.noc.state import Routers

CYCLE_LIMIT = 100_000_000
_MOST_CHANNELS = 12


@dataclass(frozen=True)
class Mesh:
    """A mesh of wormhole routers with X-Y routing.

    Args:
        width: Nodes along x.
        height: Nodes along y; node = y * width + x.
        channels: Virtual channels of a port.
        buffer_flits: Flits of each.
        routing_cycles: Cycles of route computation; 0 is look-ahead.
        speculative: Whether a head asks for switch and channel in one cycle.
        credit_cycles: Cycles of a credit besides its link.
    """

    width: int
    height: int
    channels: int = 4
    buffer_flits: int = 8
    routing_cycles: int = 1
    speculative: bool = False
    credit_cycles: int = 0

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("height", 1), ("channels", 1), ("buffer_flits", 1), ("routing_cycles", 0)):
            if getattr(self, name) < least:
                raise UserError(f"`{name}` must be >= {least}, got {getattr(self, name)}", where="mesh")
        if self.channels > _MOST_CHANNELS:
            raise UserError(f"`channels` must be <= {_MOST_CHANNELS}, got {self.channels}", where="mesh")
        if self.credit_cycles < 0:
            raise UserError(f"`credit_cycles` must be >= 0, got {self.credit_cycles}", where="mesh")

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.width * self.height

    @property
    def routers(self) -> Routers:
        """The parameters as the compiled routers take them."""
        return Routers(
            self.width, self.nodes, self.channels, self.buffer_flits, self.routing_cycles, self.speculative,
            self.credit_cycles, PORTS, 1, 0, 0,
        )  # fmt: skip

    @property
    def hop_cycles(self) -> int:
        """Cycles a head takes from router to router without contention: its pipeline and the link."""
        return self.routing_cycles + (1 if self.speculative else 2) + 2

    def hops(self, source: int, target: int) -> int:
        """Links between two nodes."""
        x, y = source % self.width - target % self.width, source // self.width - target // self.width
        return abs(x) + abs(y)

    def run(self, traffic: Traffic, *, cycle_limit: int = CYCLE_LIMIT) -> Delivery:
        """Simulate packets.

        Raises:
            UserError: A packet names a node that is not there, or has no flits.
        """
        for name, nodes in (("source", traffic.source), ("target", traffic.target)):
            if len(nodes) and (nodes.min() < 0 or nodes.max() >= self.nodes):
                raise UserError(
                    f"packet `{name}` must be a node below {self.nodes}, got {int(nodes.max())}",
                    where=f"mesh of {self.width} x {self.height}",
                    hint="the mesh is smaller than the fan-out it serves",
                )
        if len(traffic.flits) and traffic.flits.min() < 1:
            raise UserError("a packet must have at least one flit", where="traffic")
        return simulate_mesh(self.routers, traffic, cycle_limit)
