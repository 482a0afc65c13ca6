"""A tensorize choice: an intrinsic of a fixed size, the dimensions it takes, and what that costs in padding and reuse.

HASCO (ISCA 2021), Eq. 1: the computation F equals S(T(...)), where T calls the intrinsic n times and S are the loops
that remain on the host.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from codesign.core.json_types import JsonObject
from codesign.tensorization.intrinsics import Intrinsic
from codesign.tensorization.matching import Match, partial_matches, printed_matches
from codesign.workloads.computation import Computation, Tensor


@dataclass(frozen=True)
class TensorReuse:
    """How one tensor is used by the calls.

    Args:
        tensor: Its name.
        words_per_call: Elements one call touches.
        macs_per_word: Multiply-accumulates per element touched, in one full call.
        calls_per_tile: Calls that use the same elements: the product of the outer loops that do not index the tensor.
        contiguous_words: Longest run of one call's elements that is contiguous in a row-major DRAM layout.
    """

    tensor: str
    words_per_call: int
    macs_per_word: float
    calls_per_tile: int
    contiguous_words: int


@dataclass(frozen=True)
class TensorizeChoice:
    """One way to run a computation by calls of an intrinsic.

    Args:
        computation: What is computed.
        intrinsic: What one call computes.
        match: Which dimension each index of the intrinsic takes.
    """

    computation: Computation
    intrinsic: Intrinsic
    match: Match

    @cached_property
    def index_map(self) -> dict[str, str]:
        """Index of the intrinsic -> dimension of the computation."""
        return dict(self.match.index_map)

    @cached_property
    def tile(self) -> dict[str, int]:
        """Iterations of each dimension inside one call (1 for those that stay on the host)."""
        sizes = dict.fromkeys(self.computation.dims, 1)
        sizes.update({dim: self.intrinsic.computation.sizes[index] for index, dim in self.match.index_map})
        return sizes

    @cached_property
    def outer_loops(self) -> tuple[tuple[str, int], ...]:
        """Host loops (dimension, number of tiles), in the order of the notation; loops of one iteration left out."""
        counts = ((d, -(-b // self.tile[d])) for d, b in self.computation.sizes.items())
        return tuple((d, n) for d, n in counts if n > 1)

    @cached_property
    def padded(self) -> Computation:
        """The computation with every bound rounded up to a multiple of its tile: the work the calls really do."""
        return self.computation.with_bounds(
            **{d: -(-b // self.tile[d]) * self.tile[d] for d, b in self.computation.sizes.items()}
        )

    @cached_property
    def calls(self) -> int:
        """Number of intrinsic calls."""
        return math.prod(n for _, n in self.outer_loops)

    @cached_property
    def executed_macs(self) -> int:
        """Multiply-accumulates the hardware performs, wasted ones included (unused indices of the intrinsic too)."""
        return self.calls * self.intrinsic.computation.macs

    @property
    def padding_waste(self) -> float:
        """Share of the executed multiply-accumulates that do no useful work, in [0, 1)."""
        return 1.0 - self.computation.macs / self.executed_macs

    @cached_property
    def padded_dims(self) -> dict[str, tuple[int, int]]:
        """Dimensions that are padded: (bound, padded bound)."""
        pairs = ((d, (b, self.padded.sizes[d])) for d, b in self.computation.sizes.items())
        return {d: pair for d, pair in pairs if pair[0] != pair[1]}

    @cached_property
    def unmaskable(self) -> tuple[str, ...]:
        """Padded dimensions (or unused indices of the intrinsic) whose padding zeros cannot silence.

        A padded summation contributes nothing as long as one operand has the index alone on an axis, which can then be
        fed zeros beyond the bound. An index that stands only in sums such as ``x + k`` cannot be silenced; the choice
        then works only where the size divides the bound.
        """
        theirs, used = self.intrinsic.computation, self.index_map
        axes = [{d for d, _ in axis.terms} for tensor in theirs.inputs for axis in tensor.axes]
        found = []
        for index in theirs.reduced_dims:
            silent = any(index in axis and not (axis - {index}) & used.keys() for axis in axes)
            padded = used[index] in self.padded_dims if index in used else theirs.sizes[index] > 1
            if padded and not silent:
                found.append(used.get(index, index))
        return tuple(found)

    @cached_property
    def reuse(self) -> tuple[TensorReuse, ...]:
        """One entry per tensor of the computation."""
        return tuple(self._reuse_of(tensor) for tensor in self.computation.tensors)

    @property
    def intensity(self) -> float:
        """Multiply-accumulates of one call per element it touches."""
        return self.intrinsic.computation.macs / sum(r.words_per_call for r in self.reuse)

    def _reuse_of(self, tensor: Tensor) -> TensorReuse:
        sizes = {d: min(n, self.computation.sizes[d]) for d, n in self.tile.items()}
        words = math.prod(tensor.shape(sizes))
        calls = math.prod(n for d, n in self.outer_loops if d not in tensor.dims)
        run = contiguous_run(self.computation, tensor, sizes)
        return TensorReuse(tensor.name, words, self.intrinsic.computation.macs / words, calls, run)

    def loop_nest(self) -> str:
        """The host loops around the call, as text."""
        lines = []
        for depth, (dim, count) in enumerate(self.outer_loops):
            tile = self.tile[dim]
            note = f"  # {tile} iterations of {dim} in each call" if tile > 1 else ""
            lines.append(f"{'  ' * depth}for {dim}{'_tile' * (tile > 1)} in 0..{count - 1}{note}")
        call = f"{self.output_text()} += {self.intrinsic.name}({', '.join(self.input_texts())})"
        return "\n".join([*lines, "  " * len(self.outer_loops) + call])

    def output_text(self) -> str:
        """The output's part in one call, e.g. ``C[k:16,x:16,y]``."""
        return self._part(self.computation.output)

    def input_texts(self) -> list[str]:
        """Each input's part in one call; a scalar that scales the result is marked."""
        scalars = set(self.match.scalars)
        return [("scale " if t.name in scalars else "") + self._part(t) for t in self.computation.inputs]

    def _part(self, tensor: Tensor) -> str:
        def term(dim: str, coefficient: int) -> str:
            factor = f"{coefficient}*" if coefficient > 1 else ""
            return factor + (f"({dim}:{self.tile[dim]})" if self.tile[dim] > 1 else dim)

        axes = ("+".join(term(d, c) for d, c in axis.terms) for axis in tensor.axes)
        return f"{tensor.name}[{','.join(axes)}]"

    def to_json(self) -> JsonObject:
        """The form `codesign tensorize --format json` prints."""
        return {
            "index_map": self.index_map,
            "operands": {
                o.intrinsic_tensor: {"tensor": o.tensor, "axes": [None if a is None else list(a) for a in o.axes]}
                for o in self.match.operands
            },
            "scalars": list(self.match.scalars),
            "sound": self.match.is_sound,
            "failed_condition": None if self.match.failed is None else self.match.failed.title,
            "reason": self.match.reason,
            "tile": self.tile,
            "outer_loops": [{"dim": d, "count": n} for d, n in self.outer_loops],
            "padded_bounds": self.padded.sizes,
            "padded_dims": {d: bound for d, (bound, _) in self.padded_dims.items()},
            "calls": self.calls,
            "useful_macs": self.computation.macs,
            "executed_macs": self.executed_macs,
            "padding_waste": self.padding_waste,
            "unmaskable": list(self.unmaskable),
            "macs_per_word": self.intensity,
            "reuse": {r.tensor: {k: v for k, v in vars(r).items() if k != "tensor"} for r in self.reuse},
            "loopnest": self.loop_nest(),
        }


def contiguous_run(computation: Computation, tensor: Tensor, sizes: dict[str, int]) -> int:
    """Elements of a tile that lie next to each other in a row-major layout: inner axes that are taken whole, and one more.

    Args:
        computation: Gives the tensor's extent.
        tensor: The tensor.
        sizes: Iterations of each dimension in the tile.
    """
    run = 1
    for axis in reversed(tensor.axes):
        part = axis.extent(sizes)
        run *= part
        if part < axis.extent(computation.sizes):
            break
    return run


@lru_cache(maxsize=2048)
def choices(
    computation: Computation, intrinsic: Intrinsic, *, partial: bool = False, unsound: bool = False
) -> tuple[TensorizeChoice, ...]:
    """All tensorize choices, least padded work first, then most reuse in a call.

    Args:
        computation: What is computed.
        intrinsic: What one call computes.
        partial: Also those that leave indices of the intrinsic unused.
        unsound: Also those that only the rule as printed accepts (last).
    """
    matches = _matches(_shapeless(computation), Intrinsic("", _shapeless(intrinsic.computation)), partial)
    matches = tuple(m for m in matches if unsound or m.is_sound)
    found = [TensorizeChoice(computation, intrinsic, m) for m in matches]
    return tuple(sorted(found, key=lambda c: (not c.match.is_sound, bool(c.unmaskable), c.executed_macs, -c.intensity)))


def _shapeless(computation: Computation) -> Computation:
    return replace(computation, bounds=(1,) * len(computation.dims), name="")


@lru_cache(maxsize=256)
def _matches(computation: Computation, intrinsic: Intrinsic, partial: bool) -> tuple[Match, ...]:
    """The matches, which depend on the notation alone: a sweep over sizes finds them once."""
    found = printed_matches(computation, intrinsic)
    return (*found, *partial_matches(computation, intrinsic)) if partial else found
