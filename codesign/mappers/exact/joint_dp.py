"""The compiled program over all keep sets of one profile whose spatial factors are all known.

Tiles are temporal here: `x` counts what the temporal loops so far have made, so that crossing a fan-out changes nothing, and
all levels share one small lattice (the divisors of the bounds over the spatial factors). The words that enter level v
for tile x depend on v and x only, and their price on v and the parent; see `codesign.mappers.exact.joint_states`.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_inline, njit_plain
from codesign.cost.arrays import UNBOUNDED
from codesign.mappers.exact.coefficients import FILL, HOP, READ, UPDATE, WIDTH, Hardware, fewest_words
from codesign.mappers.exact.dp import INF, Grid
from codesign.mappers.exact.joint_states import (
    CHAIN,
    CLOSE,
    DONE,
    END,
    KIND,
    LEVEL,
    SHARED,
    SOURCE,
    SWEEP,
    TARGET,
    TOUCH,
    WHAT,
    JointProgram,
)
from codesign.mapping.nest import FloatArray, IntArray


@njit
def price_pairs(
    hardware: Hardware,
    children: FloatArray,
    share: FloatArray,
    distinct: FloatArray,
    price: FloatArray,
    fixed: FloatArray,
) -> None:
    """What a word between two levels that keep a tensor costs, and what is paid once.

    Args:
        hardware: Its keep sets are not looked at.
        children: ``L`` children of every fan-out in use.
        share: ``L x T`` product of the factors that index each tensor.
        distinct: ``L x T`` different words the children take at a time.
        price: ``(1 + J) x T x (L + 1) x L`` energy, then cycles of every port, of a word that enters an inner level (L: the
            MACs) from an outer one; overwritten.
        fixed: The same of what does not depend on the number of words (rule O3); overwritten.
    """
    pair, n_levels, n_tensors = hardware.pair, share.shape[0], share.shape[1]
    output = n_tensors - 1
    instances, own = np.ones(n_levels + 1), np.ones(n_levels + 1)
    own[0] = hardware.output_words
    for m in range(n_levels):
        instances[m + 1] = instances[m] * children[m]
        own[m + 1] = own[m] / share[m, output]
    price[:] = 0.0
    fixed[:] = 0.0
    for t in range(n_tensors):
        for p in range(n_levels):
            below, copies = 0.0, 1.0
            for m in range(p, n_levels):
                if pair[m, t, HOP] > 0.0:
                    hops = hardware.hops[m, 0] + hardware.hops[m, 1] * children[m] / distinct[m, t]
                    below += instances[m] * hops * pair[m, t, HOP]
                below *= distinct[m, t]
                copies *= distinct[m, t]
                v = m + 1
                at_macs = v == n_levels
                cost = instances[p] * copies * pair[p, t, READ] + below
                if not at_macs:
                    cost += instances[v] * pair[v, t, FILL]
                once = 0.0
                if t == output:
                    cost += instances[p] * copies * pair[p, t, UPDATE]
                    once = -own[p] * instances[p] * pair[p, t, READ]
                    if not at_macs:
                        once -= own[v] * instances[v] * pair[v, t, FILL]
                price[0, t, v, p], fixed[0, t, v, p] = cost, once
                for side in range(3):  # the parent's reads, the parent's updates, the fills here
                    level = v if side == 2 else p
                    if (side == 1 and t != output) or (side == 2 and at_macs):
                        continue
                    j = hardware.port[level, min(side, 1)]
                    if j < 0:
                        continue
                    width = pair[level, t, WIDTH] / hardware.bandwidth[level, min(side, 1)]
                    price[1 + j, t, v, p] += width if side == 2 else width * copies
                    if t == output and side != 1:
                        fixed[1 + j, t, v, p] -= width * own[level]


@njit
def cheapest_chains(
    price: FloatArray, fixed: FloatArray, fewest: FloatArray, passes: IntArray, keeps: IntArray
) -> float:
    """Least sum over tensors of a chain of keeping levels, each boundary carrying its fewest words (bound B1).

    Args:
        price: ``T x (L + 1) x L``.
        fixed: The same.
        fewest: ``T x (L + 1)`` fewest words that can enter each level; the MACs' last.
        passes: ``L x T`` 1 where a level may leave a tensor to others.
        keeps: ``L x T`` 1 where it may keep it.
    """
    n_tensors, n_levels = fewest.shape[0], price.shape[2]
    best = np.empty(n_levels + 1)
    total = 0.0
    for t in range(n_tensors):
        best[0] = 0.0
        for v in range(1, n_levels + 1):
            best[v] = INF
            if v < n_levels and keeps[v, t] == 0:
                continue
            for p in range(v - 1, -1, -1):
                best[v] = min(best[v], best[p] + price[t, v, p] * fewest[t, v] + fixed[t, v, p])
                if passes[p, t] == 0:
                    break
        total += float(best[n_levels])
    return total


@njit
def bound_factors(
    rows: IntArray, factors: FloatArray, distinct: FloatArray, first: IntArray, hardware: Hardware, relevant: IntArray,
    passes: IntArray, keeps: IntArray, out: FloatArray,
) -> None:  # fmt: skip
    """Closed-form bounds of profiles given by one vector for each fan-out: energy, then the cycles of every port.

    Args:
        rows: ``P x L`` number of the vector of every fan-out.
        factors: ``V x D`` spatial factors of all vectors.
        distinct: ``V x T`` different words of the children.
        first: unused positions are allowed; where each fan-out's vectors begin (``L + 1``).
        hardware: See `price_pairs`.
        relevant: ``T x D``.
        passes: See `cheapest_chains`.
        keeps: See `cheapest_chains`.
        out: ``P x (1 + J)``, overwritten; infinite energy where the factors do not divide the bounds.
    """
    n_levels, n_tensors, n_dims = rows.shape[1], relevant.shape[0], factors.shape[1]
    children, share = np.empty(n_levels), np.empty((n_levels, n_tensors))
    apart, fewest = np.empty((n_levels, n_tensors)), np.empty((n_tensors, n_levels + 1))
    rest, left = np.empty((n_levels + 1, n_dims)), np.ones((n_levels + 1, n_tensors))
    price = np.empty((out.shape[1], n_tensors, n_levels + 1, n_levels))
    fixed = np.empty_like(price)
    for i in range(rows.shape[0]):
        if not spread(rows[i], factors, distinct, hardware, relevant, children, share, apart, rest, left):
            out[i] = INF
            continue
        price_pairs(hardware, children, share, apart, price, fixed)
        count_fewest(hardware, children, rest, left, fewest)
        for w in range(out.shape[1]):
            out[i, w] = cheapest_chains(price[w], fixed[w], fewest, passes, keeps)
        out[i, 0] += hardware.macs * hardware.mac_energy


@njit
def spread(
    row: IntArray, factors: FloatArray, distinct: FloatArray, hardware: Hardware, relevant: IntArray, children: FloatArray,
    share: FloatArray, apart: FloatArray, rest: FloatArray, left: FloatArray,
) -> bool:  # fmt: skip
    """Write what a profile's vectors make of every fan-out; False if they do not divide the bounds."""
    n_levels, n_tensors = share.shape
    rest[0] = hardware.bounds
    for t in range(n_tensors):
        left[0, t] = 1.0
        for d in range(rest.shape[1]):
            if hardware.plain[t, d] == 1:
                left[0, t] *= hardware.bounds[d]
    for m in range(n_levels):
        children[m] = 1.0
        share[m] = 1.0
        left[m + 1] = left[m]
        for d in range(rest.shape[1]):
            f = factors[row[m], d]
            rest[m + 1, d] = rest[m, d] / f
            if rest[m + 1, d] != np.floor(rest[m + 1, d]):
                return False
            children[m] *= f
            for t in range(n_tensors):
                if relevant[t, d] == 1:
                    share[m, t] *= f
                if hardware.plain[t, d] == 1:
                    left[m + 1, t] /= f
        for t in range(n_tensors):
            apart[m, t] = distinct[row[m], t] if hardware.shares[m] == 1 else children[m]
    return True


@njit
def count_fewest(
    hardware: Hardware, children: FloatArray, rest: FloatArray, left: FloatArray, fewest: FloatArray
) -> None:
    """Fewest words of every tensor that can enter an instance of every level (bound B1), and those of the MACs."""
    n_levels = children.shape[0]
    for t in range(fewest.shape[0]):
        for v in range(1, n_levels):
            fewest[t, v] = fewest_words(t, v, hardware.axes, hardware.strided, hardware.bounds, left, rest)
        fewest[t, n_levels] = hardware.macs / children.prod()


class Windows(NamedTuple):
    """The tensor whose windows slide; -1 and empty arrays if there is none.

    Attributes:
        tensor: Its number.
        shared: ``L x L x D x N`` words that two neighbours along a dimension share, times the steps, when the loop stands
            at a level (first index) and a level inside holds the tile (second index); 0 where they share none.
        steady: ``L x L x D`` 1 where the shared words of a step do not depend on the size of the dimension.
        chains: ``C x 5`` what loops after the first may still save (C1): level, dimension and position of the factor of the
            first loop, tile before it, tile after it.
        saved: ``C x 3`` as a share of the words if the levels had met a loop before; of the shared words if not; and the share
            of these that the first loop saves itself.
        first: ``L x D + 1`` where the chains of each level and dimension begin.
    """

    tensor: int
    shared: FloatArray
    steady: IntArray
    chains: IntArray
    saved: FloatArray
    first: IntArray


NO_WINDOWS = Windows(
    -1, np.zeros((0, 0, 0, 0)), np.zeros((0, 0, 0), np.int64), np.zeros((0, 5), np.int64), np.zeros((0, 3)),
    np.zeros(1, np.int64),
)  # fmt: skip


@njit
def fill_charges(
    program: JointProgram, words: FloatArray, windows: Windows, price: FloatArray, fixed: FloatArray, charge: FloatArray,
    once: FloatArray, shared: FloatArray, steady: IntArray,
) -> None:  # fmt: skip
    """What closing costs, tile by tile.

    Args:
        program: Which charges there are.
        words: ``T x L x N`` words that enter an instance of a level when the tensor is closed at a tile.
        windows: What slides.
        price: ``T x (L + 1) x L`` of a word, see `price_pairs`.
        fixed: What is paid once.
        charge: ``Q x N``, overwritten.
        once: ``Q`` the part of it that does not depend on words, overwritten.
        shared: ``R x N`` what a first loop may save, overwritten.
        steady: ``R`` 1 where suffix minima find the best factor, 0 where factors are tried, -1 where nothing is shared.
    """
    n, chain = words.shape[2], program.chain
    for q in range(program.charges.shape[0]):
        t, row, p = program.charges[q]
        charge[q] = 0.0
        once[q] = 0.0
        for i in range(chain.shape[1]):
            v = chain[row, i]
            if v < 0:
                break
            outer = chain[row, i + 1] if i + 1 < chain.shape[1] and chain[row, i + 1] >= 0 else p
            once[q] += fixed[t, v, outer]
            cost, moved = price[t, v, outer], words[t, v]
            for x in range(n):
                charge[q, x] += cost * moved[x]
        for x in range(n):
            charge[q, x] += once[q]
    for r in range(program.shared.shape[0]):
        c, row, fresh, p, d = program.shared[r]
        length, t = 0, windows.tensor
        while length < chain.shape[1] and chain[row, length] >= 0:
            length += 1
        shared[r] = 0.0
        steady[r] = 1
        for i in range(length - fresh, length):
            v = chain[row, i]
            outer = chain[row, i + 1] if i + 1 < length else p
            steady[r] = min(steady[r], windows.steady[c, v, d])
            cost, common = price[t, v, outer], windows.shared[c, v, d]
            for x in range(n):
                shared[r, x] += cost * common[x]
        if shared[r].max() <= 0.0:
            steady[r] = -1


@njit_plain
def run_program(
    table: FloatArray, program: JointProgram, grid: Grid, free: IntArray, relevant: IntArray, windows: Windows,
    charge: FloatArray, once: FloatArray, shared: FloatArray, steady: IntArray, penalty: FloatArray, scratch: FloatArray,
) -> None:  # fmt: skip
    """Fill the table: least cost still to be paid from every state and tile.

    Args:
        table: ``S x N``, overwritten.
        program: The operations.
        grid: The lattice of temporal tiles.
        free: ``L x D`` 1 where a level may loop over a dimension.
        relevant: ``D`` bit mask of the tensors a dimension indexes.
        windows: What slides.
        charge: See `fill_charges`, as for `once`, `shared` and `steady`.
        penalty: ``L x 2**T x N`` infinite where the tiles of the kept tensors do not fit.
        scratch: ``1 x N``.
    """
    n, operations = table.shape[1], program.operations
    for o in range(operations.shape[0]):
        kind, s, source = operations[o, KIND], operations[o, TARGET], operations[o, SOURCE]
        c, what = operations[o, LEVEL], operations[o, WHAT]
        if o == 0 or operations[o - 1, TARGET] != s:
            for x in range(n):
                table[s, x] = INF
        if kind == CLOSE:
            for x in range(n):
                table[s, x] = min(table[s, x], table[source, x] + charge[what, x])
        elif kind == END:
            for x in range(n):
                table[s, x] = min(table[s, x], table[source, x] + penalty[c, what, x])
        elif kind == SWEEP:
            for a in range(grid.axis_dim.shape[0]):
                d = grid.axis_dim[a]
                if free[c, d] == 1 and relevant[d] & what == 0:
                    _sweep_row(table, s, grid.axis_size[a], grid.axis_stride[a])
        elif kind == TOUCH:
            for x in range(n):
                table[s, x] = min(table[s, x], table[source, x])
        elif kind == DONE:
            table[s, n - 1] = penalty[0, what, n - 1]
        elif kind == CHAIN:
            r = operations[o, SHARED]
            _chain(
                table,
                s,
                source,
                c,
                program.shared[r, 2],
                program.shared[r, 4],
                what,
                r,
                windows,
                free,
                charge,
                once,
                shared,
            )
        else:
            r = operations[o, SHARED]
            d = program.shared[r, 4]
            if steady[r] < 0 or free[c, d] == 0 or grid.n_divisors[d] == 1:
                continue
            if steady[r] == 1:  # shared / factor is the overlap at the tile outside: suffix minima try all factors
                for x in range(n):
                    scratch[0, x] = table[source, x] + shared[r, x]
                for a in range(grid.axis_dim.shape[0]):
                    if grid.axis_dim[a] == d:
                        _sweep_row(scratch, 0, grid.axis_size[a], grid.axis_stride[a])
                for x in range(n):
                    table[s, x] = min(table[s, x], scratch[0, x] + (charge[what, x] - shared[r, x]))
                continue
            block, count = grid.stride[d], grid.n_divisors[d]
            for j in range(1, count):
                keep_share = 1.0 - 1.0 / grid.divisor[d, j]
                for start in range(0, n, count * block):
                    for i in range(count):
                        if grid.grow[d, j, i] < 0:
                            continue
                        move = (grid.grow[d, j, i] - i) * block
                        for x in range(start + i * block, start + (i + 1) * block):
                            saved = shared[r, x] * keep_share
                            table[s, x] = min(table[s, x], table[source, x + move] + charge[what, x] - saved)


@njit_inline
def _chain(
    table: FloatArray, s: int, source: int, c: int, fresh: int, d: int, q: int, r: int, windows: Windows, free: IntArray,
    charge: FloatArray, once: FloatArray, shared: FloatArray,
) -> None:  # fmt: skip
    """Offer the first loops after which a chain may go on."""
    if free[c, d] == 0:
        return
    group = c * free.shape[1] + d
    for k in range(windows.first[group], windows.first[group + 1]):
        x, y = windows.chains[k, 3], windows.chains[k, 4]
        saved = (charge[q, x] - once[q]) * windows.saved[k, 0]
        if fresh > 0:
            saved += shared[r, x] * (windows.saved[k, 2] + windows.saved[k, 1])
        table[s, x] = min(table[s, x], table[source, y] + charge[q, x] - saved)


@njit_plain
def _sweep_row(table: FloatArray, s: int, size: int, inner: int) -> None:
    """Suffix minima of a row along one prime axis, in place."""
    block = size * inner
    for start in range(0, table.shape[1], block):
        for i in range(size - 2, -1, -1):
            here = start + i * inner
            for x in range(here, here + inner):
                table[s, x] = min(table[s, x], table[s, x + inner])


@njit
def price_profile(
    numbers: IntArray, factors: FloatArray, distinct: FloatArray, hardware: Hardware, relevant: IntArray,
    inside: FloatArray, price: FloatArray, fixed: FloatArray, fewest: FloatArray,
) -> None:  # fmt: skip
    """`price_pairs`, `count_fewest` and the product of the spatial factors from each level inwards, of one profile."""
    n_levels, n_dims, n_tensors = inside.shape[0], inside.shape[1], relevant.shape[0]
    children, share, apart = np.empty(n_levels), np.empty((n_levels, n_tensors)), np.empty((n_levels, n_tensors))
    rest, left = np.empty((n_levels + 1, n_dims)), np.ones((n_levels + 1, n_tensors))
    spread(numbers, factors, distinct, hardware, relevant, children, share, apart, rest, left)
    price_pairs(hardware, children, share, apart, price, fixed)
    count_fewest(hardware, children, rest, left, fewest)
    for v in range(n_levels - 1, -1, -1):
        for d in range(n_dims):
            inside[v, d] = factors[numbers[v], d] * (inside[v + 1, d] if v + 1 < n_levels else 1.0)


@njit
def fill_tiles(
    value: FloatArray, inside: FloatArray, coef: FloatArray, slides: IntArray, bits: IntArray, capacity: IntArray,
    words: FloatArray, least: FloatArray, penalty: FloatArray,
) -> None:  # fmt: skip
    """Words of every tensor's tile at every level, and where they fit.

    Args:
        value: ``D x N`` temporal sizes.
        inside: ``L x D`` product of the spatial factors from a level inwards.
        coef: ``T x A x D``.
        slides: ``T x A x D`` 1 where windows overlap when the dimension moves the axis.
        bits: ``L x T`` of an element.
        capacity: ``L`` bits.
        words: ``T x L x N`` tile words times iterations left: what enters if every step of the loops outside brings a tile.
        least: The same if every step brings only what is new when windows slide as well as any can.
        penalty: ``L x 2**T x N`` infinite where the tiles of a set of tensors do not fit.
    """
    n_tensors, n_axes, n_dims = coef.shape
    n_levels, n = inside.shape[0], value.shape[1]
    left, box, fresh, extent = np.ones(n), np.empty((n_tensors, n)), np.empty(n), np.empty(n)
    for d in range(n_dims):
        for x in range(n):
            left[x] *= value[d, n - 1] / value[d, x]
    for v in range(n_levels):
        for t in range(n_tensors):
            box[t] = 1.0
            fresh[:] = 1.0
            for a in range(n_axes):
                moves = False
                for d in range(n_dims):
                    moves = moves or coef[t, a, d] > 0.0
                if not moves:
                    continue
                extent[:] = 1.0
                for d in range(n_dims):
                    if coef[t, a, d] > 0.0:
                        for x in range(n):
                            extent[x] += coef[t, a, d] * (value[d, x] * inside[v, d] - 1.0)
                for d in range(n_dims):
                    if slides[t, a, d] == 1:
                        for x in range(n):
                            travel = coef[t, a, d] * value[d, x] * inside[max(0, v - 1), d]
                            if value[d, x] < value[d, n - 1] and travel < extent[x]:
                                fresh[x] = min(fresh[x], travel / extent[x])
                for x in range(n):
                    box[t, x] *= extent[x]
            for x in range(n):
                words[t, v, x] = box[t, x] * left[x]
                least[t, v, x] = words[t, v, x] * fresh[x]
        for kept in range(1 << n_tensors):
            penalty[v, kept] = 0.0
            if kept == 0 or capacity[v] == UNBOUNDED:
                continue
            for x in range(n):
                used = 0.0
                for t in range(n_tensors):
                    if kept >> t & 1 == 1:
                        used += box[t, x] * bits[v, t]
                if used > capacity[v]:
                    penalty[v, kept, x] = INF


@njit
def fold(place: IntArray, words: FloatArray, penalty: FloatArray, folded: FloatArray, eased: FloatArray) -> None:
    """The least words and penalty of all tiles that become one.

    Args:
        place: ``N`` what each tile becomes.
        words: ``T x L x N``.
        penalty: ``L x 2**T x N``.
        folded: ``T x L x N'``, overwritten.
        eased: ``L x 2**T x N'``, overwritten.
    """
    folded[:] = INF
    eased[:] = INF
    for t in range(words.shape[0]):
        for v in range(words.shape[1]):
            for x in range(place.shape[0]):
                folded[t, v, place[x]] = min(folded[t, v, place[x]], words[t, v, x])
    for v in range(penalty.shape[0]):
        for kept in range(penalty.shape[1]):
            for x in range(place.shape[0]):
                eased[v, kept, place[x]] = min(eased[v, kept, place[x]], penalty[v, kept, x])


@njit
def shared_words(
    t: int, value: FloatArray, inside: FloatArray, coef: FloatArray, slides: IntArray, words: FloatArray,
    shared: FloatArray, steady: IntArray,
) -> None:  # fmt: skip
    """Fill `Windows.shared` and `Windows.steady` for one tensor.

    Args:
        t: The tensor.
        value: See `fill_tiles`.
        inside: See there.
        coef: See there.
        slides: See there.
        words: See there.
        shared: ``L x L x D x N``, overwritten.
        steady: ``L x L x D``, overwritten.
    """
    n_dims, n = value.shape
    shared[:] = 0.0
    steady[:] = 1
    for a in range(coef.shape[1]):
        for d in range(n_dims):
            if slides[t, a, d] == 0:
                continue
            for v in range(inside.shape[0]):
                for c in range(v):
                    for e in range(n_dims):
                        if coef[t, a, e] > 0.0 and inside[c, e] != inside[v, e]:
                            steady[c, v, d] = 0
                    for x in range(n):
                        extent = 1.0
                        for e in range(n_dims):
                            if coef[t, a, e] > 0.0:
                                extent += coef[t, a, e] * (value[e, x] * inside[v, e] - 1.0)
                        common = extent - coef[t, a, d] * value[d, x] * inside[c, d]
                        if common > 0.0:
                            shared[c, v, d, x] = words[t, v, x] / extent * common


@njit
def list_chains(
    number: IntArray, tables: FloatArray, axis_of: IntArray, value: FloatArray, inside: FloatArray, place: IntArray,
    counts: IntArray, grid: Grid, chains: IntArray, saved: FloatArray, first: IntArray,
) -> None:  # fmt: skip
    """List the first loops after which others may save words, those of each level and dimension together.

    Args:
        number: ``L x D`` table when the first loop is over a dimension, -1 none.
        tables: ``K x 2 x J x tiles of the axis`` shares saved, see `codesign.mappers.exact.chains.chain_table`.
        axis_of: ``D x A`` the dimensions of the axis each stands on, -1 padded.
        value: ``D x N`` temporal sizes.
        inside: ``L x D`` product of the spatial factors from a level inwards.
        place: ``D x sizes`` position of every divisor of a bound.
        counts: ``D`` number of them.
        grid: The lattice of temporal tiles.
        chains: See `Windows`; rows beyond its end are counted only.
        saved: The same.
        first: Overwritten; its last entry says how many there are.
    """
    n = 0
    for c in range(number.shape[0]):
        for d in range(number.shape[1]):
            first[c * number.shape[1] + d] = n
            k = number[c, d]
            if k < 0:
                continue
            stride, count = grid.stride[d], grid.n_divisors[d]
            for x in range(value.shape[1]):
                tile = 0
                for a in range(axis_of.shape[1]):
                    e = axis_of[d, a]
                    if e >= 0:
                        tile = tile * counts[e] + place[e, int(value[e, x] * inside[c, e])]
                i = x // stride % count
                for j in range(1, count):
                    if grid.grow[d, j, i] < 0:
                        continue
                    factor = place[d, int(grid.divisor[d, j])]
                    touched, fresh = tables[k, 0, factor, tile], tables[k, 1, factor, tile]
                    if touched <= 0.0 and fresh <= 0.0:
                        continue
                    if n < chains.shape[0]:
                        chains[n, 0], chains[n, 1], chains[n, 2], chains[n, 3] = c, d, j, x
                        chains[n, 4] = x + (grid.grow[d, j, i] - i) * stride
                        saved[n, 0], saved[n, 1], saved[n, 2] = touched, fresh, 1.0 - 1.0 / grid.divisor[d, j]
                    n += 1
    first[-1] = n


@njit
def weigh(weight: FloatArray, price: FloatArray, fixed: FloatArray, total: FloatArray, once: FloatArray) -> None:
    """Weighted sums over energy and ports (``1 + J``) of `price` and `fixed`, see `price_pairs`."""
    total[:] = 0.0
    once[:] = 0.0
    for w in range(weight.shape[0]):
        if weight[w] != 0.0:
            for t in range(total.shape[0]):
                for v in range(total.shape[1]):
                    for p in range(total.shape[2]):
                        total[t, v, p] += weight[w] * price[w, t, v, p]
                        once[t, v, p] += weight[w] * fixed[w, t, v, p]


@njit
def least_start(
    table: FloatArray, starts: IntArray, price: FloatArray, fixed: FloatArray, fewest: FloatArray
) -> tuple[int, float]:
    """The best state at the MACs, and its value with what crosses into the MACs."""
    macs = fewest.shape[1] - 1
    best, least = starts[0, 0], INF
    for k in range(starts.shape[0]):
        value = table[starts[k, 0], 0]
        for t in range(fewest.shape[0]):
            p = starts[k, 1 + t]
            value += price[t, macs, p] * fewest[t, macs] + fixed[t, macs, p]
        if value < least:
            best, least = starts[k, 0], value
    return best, least
