"""Changes of a tree of segments: each makes a neighbour of the tree, which may turn out not to be a scheme (rule M51)."""

from codesign.core.jit import njit
from codesign.core.kernel_library import IntArray
from codesign.core.rng import RandomState, below, uniform
from codesign.scheduling.segments.kernels.machine import (
    LEVELS,
    ORDERS,
    RANKS,
    SHAPED,
    SUBSETS,
    Problem,
    Scratch,
    Tokens,
    Workspace,
)
from codesign.scheduling.segments.kernels.partition_ranks import rank_partitions
from codesign.scheduling.segments.kernels.segment_cost import build_segment
from codesign.scheduling.segments.kernels.tile_figures import batch_index
from codesign.scheduling.segments.kernels.tree import LEAF, SPACE, TIME, Tree, assign_cores, find_stages

CHOICE, GROUPS, FLIP, DISSOLVE, WRAP, SWAP, PULL, PUSH, BORDER, SPLIT, MERGE, SHIFT, JUMP, ALIGN = range(14)

CUT_SHARE = 0.3
"""Share of the moves that align which take a whole cut."""

LONGEST_RUN = 5
"""Of other ones the layers before or after one: a power of two of less than this exponent, cuts between counted too."""

REACH = 12
"""Tokens over which a layer jumps at most."""


@njit
def copy_tokens(source: Tokens, target: Tokens) -> None:
    """Copy a tree."""
    n = source.length[0]
    target.kind[:n] = source.kind[:n]
    target.layer[:n] = source.layer[:n]
    target.groups[:n] = source.groups[:n]
    target.choice[:n] = source.choice[:n]
    target.size[:n] = source.size[:n]
    target.length[0] = n


@njit
def copy_token(source: Tokens, at: int, target: Tokens, to: int) -> None:
    """Copy one token."""
    target.kind[to], target.layer[to], target.groups[to] = source.kind[at], source.layer[at], source.groups[at]
    target.choice[to], target.size[to] = source.choice[at], source.size[at]


@njit
def _grow_ancestors(tokens: Tokens, scratch: Scratch, at: int, by: int) -> None:
    """Change the sizes of all above a token."""
    above = scratch.parent[at]
    while above >= 0:
        tokens.size[above] += by
        above = scratch.parent[above]


@njit
def remove_cut(tokens: Tokens, scratch: Scratch, at: int) -> None:
    """Put the children of a cut into its place."""
    _grow_ancestors(tokens, scratch, at, -1)
    for i in range(at, tokens.length[0] - 1):
        copy_token(tokens, i + 1, tokens, i)
    tokens.length[0] -= 1


@njit
def insert_cut(tokens: Tokens, scratch: Scratch, at: int, size: int, kind: int, groups: int) -> None:
    """Put a cut around the subtrees of `size` tokens that begin at a token."""
    _grow_ancestors(tokens, scratch, at, 1)
    for i in range(tokens.length[0], at, -1):
        copy_token(tokens, i - 1, tokens, i)
    tokens.kind[at], tokens.layer[at], tokens.choice[at] = kind, -1, 0
    tokens.groups[at], tokens.size[at] = groups, size + 1
    tokens.length[0] += 1


@njit
def _swap_blocks(tokens: Tokens, room: Tokens, at: int, first: int, second: int) -> None:
    """Exchange two neighbouring blocks of tokens; `room` is overwritten."""
    copy_tokens(tokens, room)
    for i in range(first + second):
        source = at + first + i if i < second else at + i - second
        copy_token(room, source, tokens, at + i)


@njit
def _next_sibling(tokens: Tokens, scratch: Scratch, at: int) -> int:
    """The next child of the same parent, or -1."""
    after = at + tokens.size[at]
    above = scratch.parent[at]
    return after if above >= 0 and after < above + tokens.size[above] else -1


@njit
def _children(tokens: Tokens, at: int) -> int:
    """Number of children of a cut."""
    n, child = 0, at + 1
    while child < at + tokens.size[at]:
        n += 1
        child += tokens.size[child]
    return n


@njit
def _last_child(tokens: Tokens, at: int) -> int:
    """The last child of a cut."""
    child = at + 1
    while child + tokens.size[child] < at + tokens.size[at]:
        child += tokens.size[child]
    return child


@njit
def _random_groups(problem: Problem, batch: int, state: RandomState) -> int:
    """A random divisor of a batch."""
    n = 0
    for i in range(problem.batches.shape[0]):
        if batch % problem.batches[i] == 0:
            n += 1
    chosen = below(state, n)
    for i in range(problem.batches.shape[0]):
        if batch % problem.batches[i] == 0:
            if chosen == 0:
                return problem.batches[i]  # type: ignore[no-any-return]
            chosen -= 1
    return 1


@njit
def _change_choice(problem: Problem, tokens: Tokens, at: int, state: RandomState) -> bool:
    """Another partition, mostly one of the most promising, or another order; of kinds of cores now and then others or other weights."""
    if tokens.kind[at] != LEAF:
        return False
    kinds, code = problem.limits.shape[0], tokens.choice[at] // (ORDERS * RANKS)
    if kinds > 1 and uniform(state) < 0.25:
        subset, weights = code % SUBSETS, code // SUBSETS
        if uniform(state) < 0.6:
            subset = below(state, kinds + 2)
        else:
            digit = 1
            for _ in range(below(state, kinds - 1)):
                digit *= LEVELS
            weights += (below(state, LEVELS) - weights // digit % LEVELS) * digit
        changed = weights * SUBSETS + subset
        tokens.choice[at] += (changed - code) * ORDERS * RANKS
        return changed != code  # type: ignore[no-any-return]
    rank, order = tokens.choice[at] // ORDERS % RANKS, tokens.choice[at] % ORDERS
    if uniform(state) < 0.6:
        rank = min(below(state, RANKS), below(state, RANKS))
    if uniform(state) < 0.6:
        order = below(state, ORDERS)
    choice = (code * RANKS + rank) * ORDERS + order
    changed = choice != tokens.choice[at]
    tokens.choice[at] = choice
    return changed  # type: ignore[no-any-return]


@njit
def _change_groups(problem: Problem, tokens: Tokens, scratch: Scratch, at: int, state: RandomState) -> bool:
    if tokens.kind[at] == LEAF:
        return False
    groups = _random_groups(problem, scratch.batch[at], state)
    changed = groups != tokens.groups[at]
    tokens.groups[at] = groups
    return changed  # type: ignore[no-any-return]


@njit
def _wrap(problem: Problem, tokens: Tokens, scratch: Scratch, at: int, state: RandomState) -> bool:
    """A new cut around a token and some of its next siblings."""
    if at == 0 or tokens.length[0] + 1 >= tokens.kind.shape[0]:
        return False
    size, count = tokens.size[at], 1
    while True:
        after, above = at + size, scratch.parent[at]
        if after >= above + tokens.size[above] or (count > 1 and uniform(state) < 0.4):
            break
        size += tokens.size[after]
        count += 1
    above = scratch.parent[at]
    if count < 2 or (above > 0 and size + 1 == tokens.size[above]):
        return False
    kind = SPACE if uniform(state) < 0.5 else TIME
    groups = _random_groups(problem, scratch.batch[at], state)
    insert_cut(tokens, scratch, at, size, kind, groups)
    return True


@njit
def _swap(tokens: Tokens, room: Tokens, scratch: Scratch, at: int) -> bool:
    after = _next_sibling(tokens, scratch, at)
    if after < 0:
        return False
    _swap_blocks(tokens, room, at, tokens.size[at], tokens.size[after])
    return True


@njit
def _pull(tokens: Tokens, room: Tokens, scratch: Scratch, at: int, state: RandomState) -> bool:
    """A cut takes in its next sibling as its last child, or a cut takes in the sibling before it as its first."""
    after = _next_sibling(tokens, scratch, at)
    if after < 0:
        return False
    above = scratch.parent[at]
    if _children(tokens, above) == 2 and above > 0:
        return False  # the parent would be left with one child
    if tokens.kind[at] != LEAF and (tokens.kind[after] == LEAF or uniform(state) < 0.5):
        tokens.size[at] += tokens.size[after]
        return True
    if tokens.kind[after] == LEAF:
        return False
    size = tokens.size[at]
    tokens.size[after] += size
    _swap_blocks(tokens, room, at, size, 1)
    return True


@njit
def _push(tokens: Tokens, room: Tokens, scratch: Scratch, at: int, state: RandomState) -> bool:
    """A cut gives its last or first child to its parent."""
    if at == 0 or tokens.kind[at] == LEAF:
        return False
    if _children(tokens, at) == 2:
        remove_cut(tokens, scratch, at)
        return True
    if uniform(state) < 0.5:
        tokens.size[at] -= tokens.size[_last_child(tokens, at)]
        return True
    size = tokens.size[at + 1]
    tokens.size[at] -= size
    _swap_blocks(tokens, room, at, 1, size)
    return True


@njit
def _move_border(tokens: Tokens, room: Tokens, scratch: Scratch, at: int, state: RandomState) -> bool:
    """Between two neighbouring cuts a child changes sides."""
    after = _next_sibling(tokens, scratch, at)
    if after < 0 or tokens.kind[at] == LEAF or tokens.kind[after] == LEAF:
        return False
    if uniform(state) < 0.5:
        if _children(tokens, at) < 3:
            return False
        size = tokens.size[_last_child(tokens, at)]
        tokens.size[at] -= size
        tokens.size[after] += size
        _swap_blocks(tokens, room, after - size, size, 1)
        return True
    if _children(tokens, after) < 3:
        return False
    size = tokens.size[after + 1]
    tokens.size[at] += size
    tokens.size[after] -= size
    _swap_blocks(tokens, room, after, 1, size)
    return True


@njit
def _split(tokens: Tokens, scratch: Scratch, at: int, state: RandomState) -> bool:
    """A cut becomes two of its kind and groups, each with some of its children."""
    if at == 0 or tokens.kind[at] == LEAF or tokens.length[0] + 1 >= tokens.kind.shape[0]:
        return False
    n = _children(tokens, at)
    if n < 4:
        return False
    child = at + 1
    for _ in range(2 + below(state, n - 3)):
        child += tokens.size[child]
    size = at + tokens.size[at] - child
    insert_cut(tokens, scratch, child, size, tokens.kind[at], tokens.groups[at])
    tokens.size[at] -= size + 1
    return True


@njit
def _merge(tokens: Tokens, scratch: Scratch, at: int) -> bool:
    """A cut takes in all children of its next sibling, a cut of the same kind."""
    after = _next_sibling(tokens, scratch, at)
    if after < 0 or tokens.kind[at] == LEAF or tokens.kind[at] != tokens.kind[after]:
        return False
    above = scratch.parent[at]
    if above > 0 and _children(tokens, above) == 2:
        return False
    size = tokens.size[after]
    remove_cut(tokens, scratch, after)
    tokens.size[at] += size - 1
    return True


@njit
def _common_divisor(a: int, b: int) -> int:
    """The greatest; of a number and 0 the number."""
    while b:
        a, b = b, a % b
    return a


@njit
def _shift(problem: Problem, tokens: Tokens, at: int, state: RandomState) -> bool:
    """Groups of a cut become groups of all cuts among its children, or theirs become its own."""
    if tokens.kind[at] == LEAF:
        return False
    child, end = at + 1, at + tokens.size[at]
    if uniform(state) < 0.5:
        factor = _random_groups(problem, tokens.groups[at], state)
        if factor == 1:
            return False
        while child < end:
            if tokens.kind[child] != LEAF:
                tokens.groups[child] *= factor
            child += tokens.size[child]
        tokens.groups[at] //= factor
        return True
    factor = 0
    while child < end:
        if tokens.kind[child] != LEAF:
            factor = _common_divisor(tokens.groups[child], factor)
        child += tokens.size[child]
    if factor < 2:
        return False
    factor = _random_groups(problem, factor, state)
    if factor == 1:
        return False
    child = at + 1
    while child < end:
        if tokens.kind[child] != LEAF:
            tokens.groups[child] //= factor
        child += tokens.size[child]
    tokens.groups[at] *= factor
    return True


@njit
def _jump(tokens: Tokens, scratch: Scratch, at: int, state: RandomState) -> bool:
    """A layer moves before another node of the tree."""
    if tokens.kind[at] != LEAF or _children(tokens, scratch.parent[at]) < 3:
        return False
    to = at - REACH + below(state, 2 * REACH + 1)
    if to < 1 or to >= tokens.length[0] or to == at or to == at + 1:
        return False
    _grow_ancestors(tokens, scratch, at, -1)
    _grow_ancestors(tokens, scratch, to, 1)
    n = tokens.length[0]
    copy_token(tokens, at, tokens, n)
    if to > at:
        for i in range(at, to - 1):
            copy_token(tokens, i + 1, tokens, i)
        copy_token(tokens, n, tokens, to - 1)
    else:
        for i in range(at, to, -1):
            copy_token(tokens, i - 1, tokens, i)
        copy_token(tokens, n, tokens, to)
    return True


@njit
def _align(work: Workspace, tokens: Tokens, at: int, state: RandomState) -> bool:
    """Layers take the partition and order of one of them, as far as they have it: all of a cut, or some before or after a layer."""
    problem, scratch = work.problem, work.scratch
    whole = uniform(state) < CUT_SHARE
    if whole and at > 0 and tokens.kind[at] == LEAF:
        at = scratch.parent[at]
    if at == 0 or problem.limits.shape[0] > 1 or (not whole and tokens.kind[at] != LEAF):
        return False
    start = at
    while scratch.parent[start] > 0:
        start = scratch.parent[start]
    tree = build_segment(work, tokens, start)
    find_stages(tree, work.problem.edges, scratch.leaf_of, scratch.layer_of)
    for token in range(start, start + tokens.size[start]):
        if tokens.kind[token] == LEAF:
            scratch.leaf_of[tokens.layer[token]] = -1
    if assign_cores(tree, problem.kind_start, problem.least_use) >= 0:
        return False
    source, first, past = at, at, at + tokens.size[at]
    order, rank = tokens.choice[at] % ORDERS, tokens.choice[at] // ORDERS % RANKS
    if whole:
        source = at + 1 + below(state, tokens.size[at] - 1)
        while tokens.kind[source] != LEAF:
            source += 1
        order, rank = below(state, ORDERS), min(below(state, RANKS), below(state, RANKS))
    else:
        reach = 1 << below(state, LONGEST_RUN)
        if uniform(state) < 0.5:
            past = min(at + reach + 1, start + tokens.size[start])
        else:
            first, past = max(at - reach, start), at
    row = _row_of(work, tokens, tree, source, start, rank)
    changed = False
    for token in range(first, past):
        if tokens.kind[token] == LEAF and row >= 0:
            changed = _take_row(work, tokens, tree, token, start, row, order) or changed
    return changed


@njit
def _ranks_of(work: Workspace, tokens: Tokens, tree: Tree, token: int, start: int) -> IntArray:
    """Partitions of a leaf in a segment that begins at a token and has cores."""
    problem = work.problem
    node, batch_at = token - start + 1, batch_index(work.problem, work.scratch.batch[token])
    cores, shaped = tree.core_past[node] - tree.core_first[node], problem.kin[tokens.layer[token], SHAPED]
    n = rank_partitions(work.problem, work.caches, 0, shaped, batch_at, cores)
    return work.caches.ranked[shaped, batch_at, cores, :n]


@njit
def _row_of(work: Workspace, tokens: Tokens, tree: Tree, token: int, start: int, rank: int) -> int:
    """The partition of a leaf at a rank, or -1."""
    ranked = _ranks_of(work, tokens, tree, token, start)
    return ranked[rank % ranked.shape[0]] if ranked.shape[0] > 0 else -1


@njit
def _take_row(work: Workspace, tokens: Tokens, tree: Tree, token: int, start: int, row: int, order: int) -> bool:
    """Give a leaf a partition and an order if it has that partition; returns whether that changes it."""
    ranked = _ranks_of(work, tokens, tree, token, start)
    for j in range(ranked.shape[0]):
        if ranked[j] == row:
            choice = j * ORDERS + order
            changed = choice != tokens.choice[token]
            tokens.choice[token] = choice
            return changed  # type: ignore[no-any-return]
    return False


@njit
def _pick(weights: IntArray, state: RandomState) -> int:
    """A random move by weight."""
    left = below(state, weights.sum())
    move = 0
    while left >= weights[move]:
        left -= weights[move]
        move += 1
    return move


@njit
def mutate(work: Workspace, tokens: Tokens, room: Tokens, weights: IntArray, state: RandomState) -> bool:
    """Change a tree in one place; its parents and batches must be numbered (`segment_cost.number_nodes`).

    Args:
        work: Network and system, parents and batches.
        tokens: The tree, changed in place.
        room: Another tree's room, overwritten.
        weights: Of the moves.
        state: Of the random numbers.

    Returns:
        Whether anything changed.
    """
    at, move = below(state, tokens.length[0]), _pick(weights, state)
    if move == CHOICE:
        return _change_choice(work.problem, tokens, at, state)
    if move == GROUPS:
        return _change_groups(work.problem, tokens, work.scratch, at, state)
    if move == FLIP:
        if at == 0 or tokens.kind[at] == LEAF:
            return False
        tokens.kind[at] = SPACE if tokens.kind[at] == TIME else TIME
        return True
    if move == DISSOLVE:
        if at == 0 or tokens.kind[at] == LEAF:
            return False
        remove_cut(tokens, work.scratch, at)
        return True
    if move == WRAP:
        return _wrap(work.problem, tokens, work.scratch, at, state)
    if move == SWAP:
        return _swap(tokens, room, work.scratch, at)
    if move == PULL:
        return _pull(tokens, room, work.scratch, at, state)
    if move == PUSH:
        return _push(tokens, room, work.scratch, at, state)
    if move == BORDER:
        return _move_border(tokens, room, work.scratch, at, state)
    if move == SPLIT:
        return _split(tokens, work.scratch, at, state)
    if move == MERGE:
        return _merge(tokens, work.scratch, at)
    if move == SHIFT:
        return _shift(work.problem, tokens, at, state)
    if move == ALIGN:
        return _align(work, tokens, at, state)
    return _jump(tokens, work.scratch, at, state)
