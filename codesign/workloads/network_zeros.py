"""Where the tensors of a network have zeros: ``weight=2:4``, ``conv1.weight=dense,weight=2:4``, or a file that `codesign density` wrote (rules Z1-Z8 in docs/reference/workloads.md)."""

import fnmatch
import glob
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from codesign.core.errors import UserError, unknown_name
from codesign.workloads.computation import Computation, Tensor
from codesign.workloads.density import DENSE, Banded, Density, Structured, Uniform
from codesign.workloads.density_files import read_mask
from codesign.workloads.network import Network, Operator
from codesign.workloads.zero_file import KINDS, read_zeros

NO_ZEROS = "dense"
_BLOCKS = re.compile(r"(\d+):(\d+)")
_BAND = re.compile(r"band:(\d+)")
_MASKS = (".npy", ".txt")
_FILES = (".json", ".yaml", ".yml")


@final
@dataclass(frozen=True)
class TensorZeros:
    """Zeros of the tensors of one kind.

    Args:
        operators: Pattern of the operators' names.
        kind: One of `KINDS`.
        amount: ``dense``, a density, ``n:m``, ``band:width`` or the file of a mask.
        tensor: Name of the one tensor that is meant; empty: every one of the kind.
        mask: File of a mask whose share of non-zeros the amount is; None without.
    """

    operators: str
    kind: str
    amount: str
    tensor: str = ""
    mask: Path | None = None

    def is_of(self, operator: str, kind: str, tensor: str) -> bool:
        """Whether it speaks of an operator's tensor."""
        named = self.tensor in ("", tensor) and self.kind == kind
        return named and fnmatch.fnmatchcase(operator, self.operators)

    def density(self, computation: Computation, tensor: Tensor) -> Density:
        """The model for a tensor; blocks of n:m lie along the axis that is summed over (rule Z2).

        Raises:
            UserError: The amount is none, or does not fit the tensor.
        """
        if self.amount.endswith(_MASKS):
            return read_mask(Path(self.amount), f"zeros of {tensor.name!r}")
        return _model(self.amount, _summed_axis(computation, tensor))


def _model(amount: str, axis: int = -1) -> Density:
    """The model of an amount that is no mask, blocks of n:m along an axis.

    Raises:
        UserError: It is none.
    """
    if amount == NO_ZEROS:
        return DENSE
    if blocks := _BLOCKS.fullmatch(amount):
        return Structured(int(blocks[1]), int(blocks[2]), axis)
    if band := _BAND.fullmatch(amount):
        return Banded(int(band[1]))
    try:
        value = float(amount)
    except ValueError:
        raise UserError(
            f"zeros are written {NO_ZEROS}, as a density (0.35), as n:m (2:4), band:WIDTH or the file of a mask, got {amount!r}"
        ) from None
    return DENSE if value == 1 else Uniform(value)


@final
@dataclass(frozen=True)
class NetworkZeros:
    """Zeros of a network.

    Args:
        text: As written.
        entries: The first one that matches a tensor counts.
    """

    text: str
    entries: tuple[TensorZeros, ...]

    @classmethod
    def parse(cls, text: str) -> "NetworkZeros":
        """What ``dense`` or a list ``[OPERATORS.]KIND=AMOUNT,...`` says.

        Raises:
            UserError: It says nothing that is known.

        >>> NetworkZeros.parse("conv1.weight=dense,weight=2:4").entries[1].amount
        '2:4'
        """
        if text.strip() == NO_ZEROS:
            return cls(NO_ZEROS, ())
        if text.strip().endswith(_FILES):
            return cls.recorded(Path(text.strip()))
        found = []
        for part in (p.strip() for p in text.split(",")):
            target, _, amount = part.partition("=")
            pattern, _, kind = target.rpartition(".")
            if not target or not amount:
                raise UserError(f"zeros are written like weight=2:4 or conv1.weight=0.5,input=0.6, got {part!r}")
            if kind not in KINDS:
                raise unknown_name("kind of tensor", kind, KINDS, where=f"zeros {part!r}")
            if not amount.strip().endswith(_MASKS):
                _model(amount.strip())
            found.append(TensorZeros(pattern or "*", kind, amount.strip()))
        return cls(text.strip(), tuple(found))

    @classmethod
    def recorded(cls, path: Path) -> "NetworkZeros":
        """What a run of the network has recorded (rule Z7).

        Raises:
            UserError: The file is missing or malformed, or a density is none.
        """
        entries = (
            TensorZeros(glob.escape(x.operator), x.kind, repr(x.density), x.tensor, x.mask) for x in read_zeros(path)
        )
        return cls(str(path), tuple(entries))

    @property
    def has_masks(self) -> bool:
        """Whether it says of some tensor where its zeros are."""
        return any(entry.mask is not None for entry in self.entries)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of tensors that may have zeros."""
        return tuple(k for k in KINDS if any(e.kind == k and e.amount != NO_ZEROS for e in self.entries))

    def position_bits(self, kind: str) -> int | None:
        """Bits of a place within a block where all zeros of a kind are n:m; None otherwise (rule Z4)."""
        amounts = [e.amount for e in self.entries if e.kind == kind and e.amount != NO_ZEROS]
        blocks = [int(m[2]) for a in amounts if (m := _BLOCKS.fullmatch(a))]
        if not amounts or len(blocks) < len(amounts):
            return None
        return max(1, (max(blocks) - 1).bit_length())


def with_zeros(network: Network, zeros: NetworkZeros, *, masks: bool = False) -> Network:
    """The network with densities on the operands of its matrix operators (rules Z1 and Z2).

    Args:
        network: Without.
        zeros: Of its tensors.
        masks: Whether recorded masks stand in place of the densities that were recorded with them (rule Z8).

    Raises:
        UserError: A pattern matches no operator with such a tensor, or an amount does not fit a tensor.
    """
    used: set[TensorZeros] = set()
    operators = tuple(_with_densities(network, o, zeros, used, masks) for o in network.operators)
    for entry in zeros.entries:
        if entry not in used and entry.operators != "*":
            named = f" named {entry.tensor!r}" if entry.tensor else ""
            raise UserError(
                f"zeros: no matrix operator called {entry.operators!r} has a tensor of kind {entry.kind!r}{named}",
                where=f"network {network.name!r}",
                hint="an entry before it may cover all of them",
            )
    return replace(network, operators=operators)


def _with_densities(
    network: Network, operator: Operator, zeros: NetworkZeros, used: set[TensorZeros], masks: bool
) -> Operator:
    def with_zeros(tensor: Tensor, name: str) -> Tensor:
        kind = network.operand_kind(tensor, name)
        entry = next((e for e in zeros.entries if e.is_of(operator.name, kind, name)), None)
        if entry is None or operator.computation is None:
            return tensor
        used.add(entry)
        return _with_density(operator.computation, tensor, entry, operator.name, masks)

    return operator.with_tensors(with_zeros)


def _with_density(computation: Computation, tensor: Tensor, entry: TensorZeros, operator: str, masks: bool) -> Tensor:
    whole = tensor.shape(computation.sizes)
    try:
        if masks and entry.mask is not None:
            density: Density = read_mask(entry.mask, f"zeros of {tensor.name!r}")
        else:
            density = entry.density(computation, tensor)
        density.check(whole)
    except UserError as error:
        hint = f"leave this one dense: {operator}.{entry.kind}=dense before the others"
        raise UserError(error.message, where=f"zeros of {operator}.{entry.kind}", hint=hint) from None
    return replace(tensor, density=density)


def _summed_axis(computation: Computation, tensor: Tensor) -> int:
    """The first axis of one dimension that is summed over; the last axis where there is none."""
    for axis, index in enumerate(tensor.axes):
        if len(index.terms) == 1 and index.terms[0][0] in computation.reduced_dims:
            return axis
    return len(tensor.axes) - 1
