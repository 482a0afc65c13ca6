"""Which DRAM device stands behind a level, and how tensors lie in it; read by the event tier (docs/explanation/dram-and-mesh.md)."""

from dataclasses import dataclass
from enum import Enum

from codesign.core.errors import UserError


class PagePolicy(Enum):
    """What becomes of a row that no waiting request wants: it stays open, or is closed at once."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True)
class DramUse:
    """The device behind a DRAM level. The analytical model does not read it.

    Args:
        device: Name of a device table of the event tier.
        page_policy: None is the device's own.
        channels: Channels side by side.
        layouts: Pairs (role or tensor name, layout): ``row-major``, ``tiled``, or digits of the axes, most significant first,
            such as ``"0, 2, 3, 1"`` (channels last) or ``"0, 1/16, 2, 3, 1%16"`` (blocks of 16 channels innermost).
    """

    device: str
    page_policy: PagePolicy | None = None
    channels: int = 1
    layouts: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.device:
            raise UserError("`device` must be the name of a DRAM device, got ''")
        if self.channels < 1 or self.channels & (self.channels - 1):
            raise UserError(
                f"`channels` must be a power of two, got {self.channels}",
                hint="addresses choose channels by their bits",
            )

    def layout(self, tensor: str, role: str) -> str:
        """The layout of a tensor: its own, else its role's, else row-major."""
        known = dict(self.layouts)
        return known.get(tensor, known.get(role, "row-major"))
