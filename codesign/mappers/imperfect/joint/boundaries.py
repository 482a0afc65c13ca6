"""What crosses into every level that keeps a tensor, and what each word costs there: energy, and cycles of every port (rules IB9, IB10)."""

from typing import NamedTuple

import numpy as np

from codesign.cost.arrays import Problem
from codesign.mapping.nest import FloatArray, IntArray


class Boundaries(NamedTuple):
    """A problem with its keep sets given, dimensions of bound 1 left out.

    A boundary is a tensor kept at a level inside another one that keeps it. Words are counted at several places of its way
    inwards, one term each: at the parent, at every fan-out that costs energy, at the level. Children of fan-outs outside the place, and
    of those that share nothing, ask for themselves. The last terms of a tensor are of what the MACs ask for.

    Attributes:
        bounds: ``D``.
        related: ``T x D`` 1 where a dimension indexes the tensor.
        slides: ``T x D`` 1 where a loop slides a window of the tensor.
        distinct: ``T`` words that are used at all.
        terms: ``K x 2`` (dimension, coefficient) of every term of every axis.
        first_term: ``T x (A + 1)``.
        axes: ``T``.
        level: ``B`` the level of a boundary, ascending inwards tensor by tensor from the inside out; ``L`` at the MACs.
        tensor: ``B``.
        first: ``T + 1`` where the boundaries of each tensor start, the innermost (at the MACs) first.
        start: ``B + 1`` where the terms of each boundary start.
        weight: ``K x (1 + 2 L)`` pJ per word, then words of the read and of the write port of every level.
        share: ``K`` level whose output words are taken off, -1 where none are.
        cut: ``K`` the fan-out at which the words are counted; the parent's level for what it gives.
        shares: ``L`` 1 where the children of a fan-out share equal words.
    """

    bounds: IntArray
    related: IntArray
    slides: IntArray
    distinct: IntArray
    terms: IntArray
    first_term: IntArray
    axes: IntArray
    level: IntArray
    tensor: IntArray
    first: IntArray
    start: IntArray
    weight: FloatArray
    share: IntArray
    cut: IntArray
    shares: IntArray


def list_boundaries(arrays: Problem, keep: IntArray, dims: list[int], distinct: list[int]) -> Boundaries:
    """The boundaries of a keep set over the dimensions given, of tensors with so many distinct words."""
    levels, tensors = keep.shape
    place = {d: i for i, d in enumerate(dims)}
    terms: list[tuple[int, int]] = []
    n_axes, slides = int(arrays.axes.max()), np.zeros((tensors, len(dims)), np.int64)
    first_term = np.zeros((tensors, n_axes + 1), np.int64)
    for t in range(tensors):
        for a in range(n_axes):
            first_term[t, a] = len(terms)
            if a < arrays.axes[t]:
                span = range(int(arrays.first_term[t, a]), int(arrays.first_term[t, a + 1]))
                own = [(place[int(d)], int(c)) for d, c in arrays.terms[list(span)] if int(d) in place]
                slides[t, [d for d, _ in own]] |= len(own) > 1
                terms += own
        first_term[t, n_axes] = len(terms)
    level, tensor, first, start = [], [], [0], [0]
    rows: list[tuple[FloatArray, int, int]] = []
    for t in range(tensors):
        kept = [v for v in range(levels) if keep[v, t]]
        for u, v in zip(reversed(kept), [levels, *reversed(kept)], strict=False):
            level.append(v)
            tensor.append(t)
            rows += _terms(arrays, u, v, t)
            start.append(len(rows))
        first.append(len(level))
    return Boundaries(
        bounds=np.array([arrays.bounds[d] for d in dims], np.int64),
        related=np.ascontiguousarray((arrays.axis_of[:, dims] >= 0).astype(np.int64)),
        slides=slides,
        distinct=np.array(distinct, np.int64),
        terms=np.array(terms, np.int64).reshape(-1, 2),
        first_term=first_term,
        axes=arrays.axes,
        level=np.array(level, np.int64),
        tensor=np.array(tensor, np.int64),
        first=np.array(first, np.int64),
        start=np.array(start, np.int64),
        weight=np.array([r[0] for r in rows]),
        share=np.array([r[1] for r in rows], np.int64),
        cut=np.array([r[2] for r in rows], np.int64),
        shares=arrays.shares,
    )


def _terms(arrays: Problem, u: int, v: int, t: int) -> list[tuple[FloatArray, int, int]]:
    """The terms of tensor t between its parent u and level v (``L``: the MACs)."""
    levels = len(arrays.fanout)
    output, at_macs = t == len(arrays.axes) - 1, v == levels
    read, _, update = (float(x) for x in arrays.energy[u, t])
    width = 0.0 if at_macs else float(arrays.words[v, t])
    rows = []
    for cut in range(u, v + 1):  # words at u are what the parent gives, at v what arrives
        plain, shared = np.zeros(1 + 2 * levels), np.zeros(1 + 2 * levels)
        share_at = u
        if cut < v:
            plain[0] += float(arrays.hops[cut, 0] * arrays.hop_energy[cut, t])
        if cut > u:
            plain[0] += float(arrays.hops[cut - 1, 1] * arrays.hop_energy[cut - 1, t])
        if cut == u:
            (shared if output else plain)[0] += read
            (shared if output else plain)[1 + 2 * u] += float(arrays.words[u, t])
            if output:
                plain[0] += update
                plain[2 + 2 * u] += float(arrays.words[u, t])
        if cut == v and not at_macs:
            share_at = v
            (shared if output else plain)[0] += float(arrays.energy[v, t, 1])
            (shared if output else plain)[2 + 2 * v] += width
        if plain.any():
            rows.append((plain, -1, cut))
        if shared.any():
            rows.append((shared, share_at, cut))
    return rows
