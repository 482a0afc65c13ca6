"""The arrays that the compiled programs work on."""

from typing import NamedTuple

import numpy as np

from codesign.mapping.nest import FloatArray, IntArray

INF = np.inf


class Grid(NamedTuple):
    """The lattice for compiled code; see `codesign.mappers.exact.problem.lattice.Lattice`."""

    n_divisors: IntArray
    stride: IntArray
    grow: IntArray
    axis_dim: IntArray
    axis_size: IntArray
    axis_stride: IntArray
    divisor: FloatArray


class Machine(NamedTuple):
    """The state tables (`codesign.mappers.exact.problem.boundary_states.States`) and what the levels allow.

    Attributes:
        relevant: ``D`` bit mask of the tensors a dimension indexes.
        free: ``L x D`` 1 where a level may loop over a dimension with any factor.
        loose: ``L x D`` 1 where that loop may stand anywhere in the order.
        ordered_fixed: ``L x D`` position of the factor fixed for an ordered dimension, -1 if none.
        boundary: ``L x T x B`` boundaries open at a level, newest first, -1 padded.
    """

    level: IntArray
    open: IntArray
    counts: IntArray
    virgin: IntArray
    close: IntArray
    stage_dim: IntArray
    advance: IntArray
    waiting: IntArray
    place: IntArray
    outer: IntArray
    body: IntArray
    first: IntArray
    first_virgin: IntArray
    fixed_dim: IntArray
    fixed_place: IntArray
    relevant: IntArray
    free: IntArray
    loose: IntArray
    ordered_fixed: IntArray
    boundary: IntArray


class Charges(NamedTuple):
    """What the profile makes boundaries cost. B boundaries, K base arrays.

    Attributes:
        base: ``K x N`` tile words over tile volume.
        base_of: ``L x B`` which base array a boundary closed at a level uses.
        slide_of: ``L x B x D`` base array of the overlap words when dimension d slides, -1 if there is none.
        scale: ``L x B`` base to words.
        price: ``B`` cost per word.
        least: ``B`` fewest words allowed (0: any).
        most: ``B`` most words allowed (infinite: any).
        penalty: ``L x N`` 0 where the level's tiles fit, infinite elsewhere.
        group: ``L + 1`` first group of each fan-out.
        vector: ``G + 1`` first vector of each group.
        factors: ``V x D`` position of the factor of each dimension.
        steady: ``L x B x D`` 1 where the overlap along d does not depend on the size of d.
        chain_of: ``L x T x D`` chain table when dimension d is the first loop along its axis, -1 if it is all 0.
    """

    base: FloatArray
    base_of: IntArray
    slide_of: IntArray
    scale: FloatArray
    price: FloatArray
    least: FloatArray
    most: FloatArray
    penalty: FloatArray
    group: IntArray
    vector: IntArray
    factors: IntArray
    steady: IntArray
    chain_of: IntArray


class Chains(NamedTuple):
    """What may still be saved after a tensor is closed along a sliding axis; see `codesign.mappers.exact.problem.sliding_windows`.

    Attributes:
        row_of: ``T x D`` row of the sliding axis a dimension stands on, -1 none.
        axis_index: ``R x N`` tile of the axis.
        tiles: ``R x N`` lattice tiles sorted by it.
        first: ``R x (S + 1)`` where each begins.
        table: ``K x 2 x J x S`` share saved; touched or untouched before, factor, tile of the axis.
        special: ``K x P x 2`` the (factor, tile of the axis) with a saving after other loops.
        n_special: ``K``.
    """

    row_of: IntArray
    axis_index: IntArray
    tiles: IntArray
    first: IntArray
    table: FloatArray
    special: IntArray
    n_special: IntArray
