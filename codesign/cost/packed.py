"""A problem packed for scoring: few arrays, handed from helper to helper as one record."""

from typing import NamedTuple

import numpy as np

from codesign.core.errors import UserError
from codesign.cost.arrays import Problem
from codesign.cost.mesh import ON, MeshArrays
from codesign.mapping.nest import FloatArray, IntArray

VALID, OVER_CAPACITY, OVER_MESH = 0, 1, 2
"""What scoring says of a mapping; the last two plus 4 times the level."""


class Kernel(NamedTuple):
    """A problem packed for scoring, and the space scoring writes to. One per thread, made by `make_kernel`.

    Attributes:
        bounds: ``D``.
        terms: ``K x 2`` (dimension, coefficient) of every term of every axis.
        first_term: ``T x (A + 1)`` where the terms of each axis start.
        motion: ``T x D x 2`` axis a dimension moves the tensor along (-1 none), coefficient.
        coef: ``T x A x D``.
        tensor: ``T x 3`` number of axes, 1 if a dimension stands on two axes, words of the whole tensor.
        element_bits: ``L x T``.
        pair: ``L x T x 5`` pJ per element read, filled, updated; words per element; pJ per element and hop.
        level_int: ``L x 6`` capacity in bits, fan-out x, y, 1 if equal words are shared, 1 if peers forward, 1 if reads and
            writes take turns on one port.
        level: ``L x 4`` read and write bandwidth in words per cycle (0 unlimited), hops: constant, per copy.
        mac_energy: pJ.
        reuse: value of `codesign.cost.arrays.Reuse`.
        inner: ``(N + 2) x D`` product of the factors of loops i.. of each dimension, where a tensor is stored at i.
        outside: ``(N + 1) x 4`` product of the temporal factors outside loop i, the innermost of those loops (-1 none),
            1 where a tensor is stored, size of one step of loop i along its dimension.
        use: ``L x 5`` first and past-the-last spatial loop, children in use per instance, instances in use, output
            words one instance is responsible for.
        extent: ``L x T x A`` tile extents.
        counts: ``L x T x 5`` tile words, reads, fills, updates of one instance; words peers gave each other, of all.
        spent: ``L x 3`` energy of the network below the level in pJ, cycles in which its ports are busy, and the busiest link of
            its mesh.
        shift: ``A`` how far the inner loops have moved the tile when a loop steps.
        offsets: room to enumerate the children of one fan-out.
        meshes: 1 where some fan-out is a mesh.
        mesh: its arrays.
        imperfect: 1 where the factors of a dimension may multiply to more than its bound (`codesign.cost.imperfect`).
        busy: ``L x 2`` words that the busiest instance of a level reads and writes in such a nest, as fractions of its words.
        along: ``D x 5`` product of the factors of a dimension, and its tiles at a place: see `codesign.cost.imperfect.COVERED`.
    """

    bounds: IntArray
    terms: IntArray
    first_term: IntArray
    motion: IntArray
    coef: IntArray
    tensor: IntArray
    element_bits: IntArray
    pair: FloatArray
    level_int: IntArray
    level: FloatArray
    mac_energy: float
    reuse: int
    inner: IntArray
    outside: IntArray
    use: IntArray
    extent: IntArray
    counts: IntArray
    spent: FloatArray
    shift: IntArray
    offsets: IntArray
    meshes: int
    mesh: MeshArrays
    imperfect: int
    busy: FloatArray
    along: IntArray


def make_kernel(problem: Problem, max_loops: int, imperfect: bool = False) -> Kernel:
    """Pack a problem, with room for nests of up to `max_loops` loops, imperfect ones too or not.

    Raises:
        UserError: The multiply-accumulates are more than a whole number of 64 bits can count.
    """
    if problem.macs > np.iinfo(np.int64).max:
        raise UserError(f"{problem.macs:,} multiply-accumulates are too many to count, the most is 2^63 - 1")
    n_tensors, n_axes, n_dims = problem.coef.shape
    n_levels = problem.fanout.shape[0]
    columns = (problem.capacity_bits, *problem.fanout.T, problem.shares, problem.peers, problem.one_port)
    return Kernel(
        bounds=problem.bounds,
        terms=problem.terms,
        first_term=problem.first_term,
        motion=np.ascontiguousarray(np.stack([problem.axis_of, problem.step_of], axis=-1)),
        coef=problem.coef,
        tensor=np.ascontiguousarray(np.stack([problem.axes, problem.entangled, problem.tensor_words], axis=-1)),
        element_bits=problem.element_bits,
        pair=np.ascontiguousarray(
            np.concatenate([problem.energy, problem.words[..., None], problem.hop_energy[..., None]], axis=-1)
        ),
        level_int=np.ascontiguousarray(np.stack(columns, axis=-1)),
        level=np.ascontiguousarray(np.concatenate([problem.bandwidth, problem.hops], axis=-1)),
        mac_energy=problem.mac_energy,
        reuse=problem.reuse,
        inner=np.ones((max_loops + 2, n_dims), np.int64),
        outside=np.ones((max_loops + 1, 4), np.int64),
        use=np.ones((n_levels, 5), np.int64),
        extent=np.zeros((n_levels, n_tensors, n_axes), np.int64),
        counts=np.zeros((n_levels, n_tensors, 5), np.int64),
        spent=np.zeros((n_levels, 3)),
        shift=np.zeros(n_axes, np.int64),
        offsets=np.zeros(int(problem.fanout.prod(axis=1).max()), np.int64),
        meshes=int(problem.mesh.level[:, ON].any()),
        mesh=problem.mesh._replace(  # the tables are shared, the scratch is not
            load=np.zeros_like(problem.mesh.load),
            mark=np.zeros_like(problem.mesh.mark),
            child=np.zeros_like(problem.mesh.child),
            role=np.zeros_like(problem.mesh.role),
        ),
        imperfect=int(imperfect),
        busy=np.zeros((n_levels, 2)),
        along=np.zeros((n_dims, 5), np.int64),
    )
