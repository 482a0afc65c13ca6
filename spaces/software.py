"""The software space of a computation on a core: every candidate is a primitive sequence, and the program it makes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from codesign.core.errors import UserError
from codesign.core.rng import make_state
from codesign.mapping.nest import FloatArray, IntArray
from codesign.tensorization.core_program import program_of_rows
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.program_cost import CallProgram
from codesign.tensorization.revisions import (
    CHOICE,
    FIRST_CALLS,
    FUSED,
    REVISIONS,
    candidate_width,
    draw,
    revise,
    unfold,
)
from codesign.tensorization.scoring import FITS
from spaces.primitives import (
    Fuse,
    Loops,
    Primitive,
    Reorder,
    Split,
    Tensorize,
    score_sequences,
)


@dataclass(frozen=True)
class SoftwareSpace:
    """Skeleton ``[split ..., reorder, fuse, tensorize]`` with every factor, order and tensorize choice.

    Args:
        problem: The computation on the core.
    """

    problem: SoftwareProblem
    _loops: IntArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_loops", np.ones((self.problem.max_loops, 3), np.int64))

    def sample(self, count: int, seed: int) -> IntArray:
        """Random candidates that fit the scratchpad: ``count x`` `candidate_width`.

        Raises:
            UserError: None of many fits: the scratchpad does not hold one call.
        """
        random = make_state(seed)
        rows = np.zeros((count, candidate_width(len(self.problem.computation.dims))), np.int64)
        for row in rows:
            if not any(draw(self.problem.arrays, row, random) == FITS for _ in range(100)):
                raise UserError(
                    f"no program of {self.problem.core.intrinsic.name!r} calls fits the scratchpad",
                    where=str(self.problem.computation),
                    hint="give it a larger scratchpad, or a smaller intrinsic",
                )
        return rows

    def revised(self, candidate: IntArray, revision: int) -> IntArray | None:
        """The candidate after a revise choice; None where that choice changes nothing."""
        if not 0 <= revision < REVISIONS:
            raise UserError(f"revision must be in 0..{REVISIONS - 1}, got {revision}")
        row = candidate.copy()
        return row if revise(self.problem.arrays, row, revision) else None

    def loops(self, candidate: IntArray) -> Loops:
        """The loops of a candidate."""
        count, host = unfold(self.problem.arrays, candidate, self._loops)
        rows = [(int(d), int(n), int(j)) for d, n, j in self._loops[:count]]
        return Loops(int(candidate[CHOICE]), rows, host)

    def program(self, candidate: IntArray) -> CallProgram:
        """The program of a candidate."""
        loops = self.loops(candidate)
        return program_of_rows(self.problem, loops.choice, loops.rows, loops.host)

    def sequence(self, candidate: IntArray) -> list[Primitive]:
        """The candidate as primitives."""
        computation, tile = self.problem.computation, self.problem.tiles[int(candidate[CHOICE])]
        n_dims = len(computation.dims)
        calls = [int(n) for n in candidate[FIRST_CALLS : FIRST_CALLS + n_dims]]
        orders = candidate[FIRST_CALLS + n_dims :].reshape(2, n_dims)
        primitives: list[Primitive] = []
        host_name: dict[int, str] = {}
        inner_name: dict[int, str] = {}
        for d, (dim, bound) in enumerate(computation.sizes.items()):
            inside = calls[d] * tile[d]
            if inside >= bound:
                inner_name[d] = dim
            elif inside == 1:
                host_name[d] = dim
            else:
                primitives.append(Split(dim, inside))
                host_name[d], inner_name[d] = f"{dim}.o", f"{dim}.i"
        host = [host_name[int(d)] for d in orders[0] if int(d) in host_name]
        inner = [inner_name[int(d)] for d in orders[1] if int(d) in inner_name]
        primitives.append(Reorder((*host, *inner)))
        fused = min(int(candidate[FUSED]), len(host))
        if fused > 1:
            primitives.append(Fuse(tuple(host[-fused:])))
        if not inner:
            raise UserError("no dimension is left on the scratchpad", where=str(computation))
        primitives.append(Tensorize(int(candidate[CHOICE]), inner[0]))
        return primitives

    def score(self, sequences: Sequence[Sequence[Primitive]]) -> FloatArray:
        """Score primitive sequences, see `spaces.primitives.score_sequences`."""
        return score_sequences(self.problem, sequences)
