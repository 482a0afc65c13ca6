"""From the table of the program over all keep sets back to loops and keep sets."""

from dataclasses import dataclass

from codesign.mappers.exact.all_keep_sets.fill_states import (
    CHAIN,
    CLOSE,
    DONE,
    END,
    KIND,
    LEVEL,
    SHARED,
    SLIDE,
    SOURCE,
    SWEEP,
    TOUCH,
    WHAT,
    JointProgram,
)
from codesign.mappers.exact.all_keep_sets.joint_program import Closings, Windows
from codesign.mappers.exact.one_keep_set.fixed_keep_set import KeepSets
from codesign.mappers.exact.one_keep_set.reconstruct import LevelLoops
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.lattice import Lattice
from codesign.mapping.nest import FloatArray, IntArray

_EXACT = 1e-11


@dataclass(frozen=True, eq=False)
class Tiles:
    """What a program needs of its temporal tiles.

    Attributes:
        lattice: They.
        words: ``T x L x N`` words that enter an instance of a level when a tensor is closed.
        penalty: ``L x 2**T x N`` infinite where the tiles of the kept tensors do not fit.
        free: ``L x D`` 1 where a level may loop over a dimension.
        relevant: ``D`` bit mask of the tensors a dimension indexes.
    """

    lattice: Lattice
    words: FloatArray
    penalty: FloatArray
    free: IntArray
    relevant: IntArray


@dataclass(frozen=True, eq=False)
class Filled:
    """A table of the program, and what it was filled with; see `codesign.mappers.exact.all_keep_sets.joint_program.run_program`.

    Attributes:
        program: The operations.
        table: ``S x N``.
        closings: What closing cost.
        penalty: ``L x 2**T x N``.
        start: The best state at the MACs.
    """

    program: JointProgram
    table: FloatArray
    closings: Closings
    penalty: FloatArray
    start: int


class JointTrace:
    """Follows equal values from the MACs outwards.

    Args:
        instance: The problem.
        tiles: Those of the table.
        spatial: ``L x D`` factors of the profile.
        windows: What slides.
        filled: The table.
    """

    def __init__(self, instance: Instance, tiles: Tiles, spatial: FloatArray, windows: Windows, filled: Filled) -> None:
        self.instance, self.windows, self.filled, self.table = instance, windows, filled, filled.table
        self.lattice, self.free = tiles.lattice, tiles.free
        self.levels = [LevelLoops() for _ in range(self.instance.n_levels)]
        for v, loops in enumerate(self.levels):
            loops.spatial = {d: int(f) for d, f in enumerate(spatial[v]) if f > 1}
        self.keep = [[v == 0] * self.instance.n_tensors for v in range(self.instance.n_levels)]
        self.slack = 0.0

    def walk(self) -> tuple[list[LevelLoops], KeepSets]:
        """The loops of every level and what it keeps."""
        s, x, program = self.filled.start, 0, self.filled.program
        self.slack = _EXACT * max(1.0, abs(float(self.table[s, x])))
        while True:
            operations = program.operations[program.first[s] : program.first[s + 1]].tolist()
            if operations[0][KIND] == DONE and x == self.table.shape[1] - 1:
                return self.levels, tuple(tuple(row) for row in self.keep)
            found = next((moved for o in operations if (moved := self.undone(o, s, x)) is not None), None)
            if found is None:
                raise AssertionError("the tables of the dynamic program do not add up")
            source, y, c = found
            if y != x:
                for d, (size, grown) in enumerate(zip(self.lattice.sizes(x), self.lattice.sizes(y), strict=True)):
                    if grown != size:
                        self.levels[c].add(d, grown // size)
            s, x = source, y

    def undone(self, operation: list[int], s: int, x: int) -> tuple[int, int, int] | None:
        """The state and tile after an operation, and its level, if it keeps the value."""
        kind, source, c, what = operation[KIND], operation[SOURCE], operation[LEVEL], operation[WHAT]
        filled, wanted = self.filled, float(self.table[s, x])
        if kind == END and self.same(float(self.table[source, x] + filled.penalty[c, what, x]), wanted):
            self.keep[c] = [bool(what >> t & 1) for t in range(self.instance.n_tensors)]
            return source, x, c
        if kind == CLOSE and self.same(float(self.table[source, x] + filled.closings.charge[what, x]), wanted):
            return source, x, c
        if kind == TOUCH and self.same(float(self.table[source, x]), wanted):
            return source, x, c
        if kind == SWEEP:
            return self.loop(s, x, c, what, wanted)
        if kind == SLIDE:
            return self.slide(operation, x, wanted)
        return self.chain(operation, x, wanted) if kind == CHAIN else None

    def same(self, value: float, wanted: float) -> bool:
        """Whether two values are equal but for rounding."""
        return abs(value - wanted) <= self.slack

    def loop(self, s: int, x: int, c: int, opened: int, wanted: float) -> tuple[int, int, int] | None:
        """A prime step of a loop that no open tensor minds."""
        grid = self.lattice.grid
        for a in range(len(grid.axis_dim)):
            d, stride, size = int(grid.axis_dim[a]), int(grid.axis_stride[a]), int(grid.axis_size[a])
            if self.free[c, d] == 0 or int(self.instance.relevant_mask[d]) & opened:
                continue
            if x // stride % size < size - 1 and self.table[s, x + stride] == wanted:
                return s, x + stride, c
        return None

    def slide(self, operation: list[int], x: int, wanted: float) -> tuple[int, int, int] | None:
        """A first loop along which a window slides."""
        filled, grid = self.filled, self.lattice.grid
        source, c, what, r = operation[SOURCE], operation[LEVEL], operation[WHAT], operation[SHARED]
        d = int(filled.program.shared[r, 4])
        if filled.closings.steady[r] < 0 or self.free[c, d] == 0:
            return None
        # suffix minima also try the factor 1: the tensor closes without a loop, which only overestimates (D4)
        smallest = 0 if filled.closings.steady[r] == 1 else 1
        for j in range(smallest, int(grid.n_divisors[d])):
            y = self.lattice.grown(x, d, j)
            if y < 0:
                continue
            saved = 1.0 - 1.0 / float(grid.divisor[d, j])
            value = float(
                self.table[source, y] + filled.closings.charge[what, x] - filled.closings.shared[r, x] * saved
            )
            if self.same(value, wanted):
                return source, y, c
        return None

    def chain(self, operation: list[int], x: int, wanted: float) -> tuple[int, int, int] | None:
        """A first loop after which others may save words too."""
        filled, windows = self.filled, self.windows
        source, c, q, r = operation[SOURCE], operation[LEVEL], operation[WHAT], operation[SHARED]
        fresh, d = int(filled.program.shared[r, 2]), int(filled.program.shared[r, 4])
        if self.free[c, d] == 0:
            return None
        group = c * self.instance.n_dims + d
        for k in range(int(windows.first[group]), int(windows.first[group + 1])):
            if windows.chains[k, 3] != x:
                continue
            y = int(windows.chains[k, 4])
            touched = int(filled.program.shared[r, 5]) > 0
            saved = (
                float(filled.closings.charge[q, x] - filled.closings.once[q]) * float(windows.saved[k, 0])
                if touched
                else 0.0
            )
            if fresh:
                saved += float(filled.closings.shared[r, x] * (windows.saved[k, 2] + windows.saved[k, 1]))
            if self.same(float(self.table[source, y] + filled.closings.charge[q, x]) - saved, wanted):
                return source, y, c
        return None
