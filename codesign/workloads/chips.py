"""Chips that share a language model: tensor parallel within a stage of layers, pipeline parallel between stages. Rules V6, V9, V10."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import final

from codesign.core.checks import check_least, check_positive, check_whole
from codesign.core.errors import UserError
from codesign.core.fields import Fields
from codesign.core.specs import at_least


class Collective(Enum):
    """How the partial sums of all chips are added up."""

    RING = "ring"
    TREE = "tree"


def _check_link(link: "StageLink | Chips") -> None:
    check_positive(link_bytes_per_s=link.link_bytes_per_s)
    check_least(0, link_latency_s=link.link_latency_s, link_pj_per_byte=link.link_pj_per_byte)


@final
@dataclass(frozen=True)
class StageLink:
    """The way from a chip to the one of the same place in the next stage.

    Args:
        link_bytes_per_s: While all chips of a stage send.
        link_latency_s: Of one transfer.
        link_pj_per_byte: Energy of a byte.
    """

    link_bytes_per_s: float = 50e9
    link_latency_s: float = 1e-6
    link_pj_per_byte: float = 10.0

    def __post_init__(self) -> None:
        _check_link(self)


@final
@dataclass(frozen=True)
class Chips:
    """Equal chips in stages of layers; those of a stage share each of its layers.

    Args:
        count: How many, in all stages.
        link_bytes_per_s: Of one chip to its neighbour, each way.
        link_latency_s: Of one transfer.
        link_pj_per_byte: Energy of a byte over a link.
        collective: Ring, or tree.
        stages: That the layers are cut into, each on as many chips.
        micro_batches: Parts that pass the stages one behind another; None for the better of one and as many as stages.
        memory_bytes: Of one chip; None for what its architecture says.
        between: Links between stages; None for links like those within one.
    """

    count: int = at_least(1, 1)
    link_bytes_per_s: float = 50e9
    link_latency_s: float = 1e-6
    link_pj_per_byte: float = 10.0
    collective: Collective = Collective.RING
    stages: int = at_least(1, 1)
    micro_batches: int | None = at_least(1)
    memory_bytes: float | None = None
    between: StageLink | None = None

    def __post_init__(self) -> None:
        check_whole(count=self.count, stages=self.stages, where="chips")
        if self.micro_batches is not None:
            check_whole(micro_batches=self.micro_batches, where="chips")
        if self.count % self.stages:
            raise UserError(f"`stages` must divide the {self.count} chips, got {self.stages}")
        check_positive(memory_bytes=self.memory_bytes)
        _check_link(self)

    @property
    def tensor(self) -> int:
        """Chips that share a layer."""
        return self.count // self.stages

    @property
    def onward(self) -> StageLink:
        """The links between stages."""
        return self.between or StageLink(self.link_bytes_per_s, self.link_latency_s, self.link_pj_per_byte)

    @property
    def has_default_links(self) -> bool:
        """Whether nothing was said of any link."""
        said = (self.link_bytes_per_s, self.link_latency_s, self.link_pj_per_byte, self.collective, self.between)
        return said == (Chips.link_bytes_per_s, Chips.link_latency_s, Chips.link_pj_per_byte, Chips.collective, None)

    def all_reduce_s(self, size_bytes: float) -> float:
        """Time to add up a tensor that every chip of a stage holds a part of (rule V6).

        Ring: 2 (n - 1) steps, each with 1/n of the tensor. Tree: it goes up and down, whole, in ceil(log2 n) steps each.
        """
        n = self.tensor
        if n == 1:
            return 0.0
        if self.collective is Collective.RING:
            steps, each = 2 * (n - 1), size_bytes / n
        else:
            steps, each = 2 * math.ceil(math.log2(n)), size_bytes
        return steps * (each / self.link_bytes_per_s + self.link_latency_s)

    def all_reduce_bytes(self, size_bytes: float) -> float:
        """Bytes over all links of a stage together: 2 (n - 1) times the tensor, ring or tree."""
        return 2 * (self.tensor - 1) * size_bytes

    def send_s(self, size_bytes: float) -> float:
        """Time to give a tensor to the next stage (rule V9): each chip sends 1/n of it, and the receivers share their parts in a ring."""
        way, each = self.onward, size_bytes / self.tensor
        shared = (self.tensor - 1) * (each / self.link_bytes_per_s + self.link_latency_s)
        return each / way.link_bytes_per_s + way.link_latency_s + shared

    def send_pj(self, size_bytes: float) -> float:
        """Energy of that: the tensor once between stages, n - 1 times over links of the receiving one."""
        shared = (self.tensor - 1) * size_bytes * self.link_pj_per_byte
        return size_bytes * self.onward.link_pj_per_byte + shared


def chips_from_json(raw: object) -> Chips:
    """The value of ``chips`` in a file.

    Raises:
        UserError: A key is unknown, or a value is wrong.
    """
    found = Fields(raw, "chips")
    between = found.child("between").record(StageLink) if found.has("between") else None
    return found.record(Chips, between=between)
