"""What hardware does about zeros: how a level writes a tensor down, and which accesses and MACs it leaves out.

The terms are Sparseloop's (Wu et al., MICRO 2022): representation formats, gating, skipping, leader and follower. The laws are
written down in docs/reference/sparsity.md.
"""

from dataclasses import dataclass
from enum import Enum

from codesign.core.checks import repeated
from codesign.core.errors import UserError
from codesign.core.specs import at_least


class RankFormat(Enum):
    """How one rank of a tensor is written (laws F2-F5).

    OFFSETS: An offset for every coordinate and one more: the row pointers of CSR.
    BITMASK: One bit for every coordinate of a fibre that holds something.
    FLAT_BITMASK: One bit for every coordinate, empty fibres too.
    PLAIN_BITMASK: The same beside values that are all kept, zeros too.
    RUN_LENGTH: The number of zeros before every coordinate that holds something.
    COORDINATES: Every coordinate that holds something.
    """

    OFFSETS = "offsets"
    BITMASK = "bitmask"
    FLAT_BITMASK = "flat_bitmask"
    PLAIN_BITMASK = "plain_bitmask"
    RUN_LENGTH = "run_length"
    COORDINATES = "coordinates"

    @property
    def compressed(self) -> bool:
        """Whether empty coordinates take no payload."""
        return self not in (RankFormat.OFFSETS, RankFormat.PLAIN_BITMASK)

    @property
    def entry_bits(self) -> int | None:
        """Width of an entry that needs no choice: one bit in masks, None elsewhere."""
        return 1 if "bitmask" in self.value else None


@dataclass(frozen=True)
class Rank:
    """One rank of a format.

    Args:
        format: How it is written.
        metadata_bits: Width of one entry; None is the level's own width (one bit for a bitmask).
        payload_bits: Width of one pointer to the rank below; None is no pointer.
        dims: Dimensions whose loops are flattened into this rank; empty takes one loop, whatever it is.
    """

    format: RankFormat
    metadata_bits: int | None = at_least(0)
    payload_bits: int | None = at_least(0)
    dims: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TensorFormat:
    """How a level writes a tensor.

    Args:
        tensor: Its name, or a role (input, weight, output).
        ranks: From the outermost to the innermost.
        inner_to_outer: Whether the innermost rank takes the innermost loop first (law F1).
        flat: Whether the one rank stands for the whole tile, however the mapping cuts it.
        where_zeros: Whether a tensor without zeros is written plainly all the same (law F9).
    """

    tensor: str
    ranks: tuple[Rank, ...]
    inner_to_outer: bool = True
    flat: bool = False
    where_zeros: bool = False

    def __post_init__(self) -> None:
        if self.flat and len(self.ranks) != 1:
            raise UserError(f"the flat format of {self.tensor!r} has one rank, got {len(self.ranks)}")
        if not self.ranks:
            raise UserError(f"the format of {self.tensor!r} needs at least one rank")

    @property
    def compressed(self) -> bool:
        """Whether zeros take no room."""
        return any(rank.format.compressed for rank in self.ranks)


class ZeroKind(Enum):
    """What happens to an access or a MAC that can only meet zeros (laws A1-A6).

    GATE: It takes its time and (almost) no energy.
    SKIP: It takes neither.
    SKIP_SPATIAL: The children that would hold only zeros are given other work.
    SKIP_POSITIONS: The non-zeros of a tile are packed into as few steps of the array as they need.
    """

    GATE = "gating"
    SKIP = "skipping"
    SKIP_SPATIAL = "skipping-spatial"
    SKIP_POSITIONS = "position-skipping"


@dataclass(frozen=True)
class ZeroAction:
    """Accesses of a follower left out where its leaders are zero (leader-follower intersection).

    Args:
        kind: What is saved.
        follower: Tensor (name or role) whose accesses are left out.
        leaders: Tensors (names or roles) whose zeros decide; for `ZeroKind.SKIP_POSITIONS` none, the follower's own.
    """

    kind: ZeroKind
    follower: str
    leaders: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        own = self.kind is ZeroKind.SKIP_POSITIONS
        if own and self.leaders:
            raise UserError(f"{self.kind.value} of {self.follower!r} follows its own zeros and takes no leaders")
        if not own and not self.leaders:
            raise UserError(f"{self.kind.value} of {self.follower!r} needs at least one leader")


@dataclass(frozen=True)
class LevelSparsity:
    """What one storage level does about zeros.

    Args:
        formats: At most one per tensor.
        actions: In the order given.
        metadata_bits: Width of a metadata entry whose rank names none.
        metadata_word_bits: Width of the metadata store: accesses are counted in such words. None is the level's word.
    """

    formats: tuple[TensorFormat, ...] = ()
    actions: tuple[ZeroAction, ...] = ()
    metadata_bits: int = at_least(1, 8)
    metadata_word_bits: int | None = at_least(1)

    def __post_init__(self) -> None:
        if (twice := repeated([f.tensor for f in self.formats])) is not None:
            raise UserError(f"two formats for {twice!r}")


NO_SPARSITY = LevelSparsity()
