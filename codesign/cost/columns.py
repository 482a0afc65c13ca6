"""Columns of the packed arrays of `codesign.cost.kernel.Kernel`: what each number of a row stands for."""

AXIS, STEP = 0, 1
"""Of ``motion``."""

AXES, ENTANGLED, WORDS = 0, 1, 2
"""Of ``tensor``."""

READ, FILL, UPDATE, WORD_WIDTH, HOP = 0, 1, 2, 3, 4
"""Of ``pair``: pJ per element read, filled, updated; words per element; pJ per element and hop."""

CAPACITY, FAN_X, FAN_Y, SHARES, PEERS, ONE_PORT = 0, 1, 2, 3, 4, 5
"""Of ``level_int``."""

READ_BANDWIDTH, WRITE_BANDWIDTH, HOPS, HOPS_PER_COPY = 0, 1, 2, 3
"""Of ``level``."""

BEFORE, NEAREST, MARKED, STEP_SIZE = 0, 1, 2, 3
"""Of ``outside``."""

START, STOP, CHILDREN, INSTANCES, SHARE = 0, 1, 2, 3, 4
"""Of ``use``."""

TILE, READS, FILLS, UPDATES, GIVEN = 0, 1, 2, 3, 4
"""Of ``counts``."""

NETWORK, CYCLES, MESH = 0, 1, 2
"""Of ``spent``."""

ROUNDED = 1.0 - 1e-12
"""Cycles of one port are rounded up after the rounding of sums is taken off."""
