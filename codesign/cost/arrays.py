"""What the kernel works on: (computation, architecture) and a mapping as small integer arrays.

Shapes use the project's letters: T tensors (inputs in order, the output last), D dimensions, L levels
(0 outermost), A axes of the widest tensor, N loops.
"""

from enum import Enum
from typing import NamedTuple

import numpy as np

from codesign.arch.architecture import Architecture, Links, Ports
from codesign.core.errors import UserError, unknown_name
from codesign.cost.mesh import MeshArrays, make_mesh
from codesign.mapping.nest import FloatArray, IntArray
from codesign.workloads.computation import Computation, Tensor

UNBOUNDED = 1 << 62


class Reuse(Enum):
    """What a buffer that moves to its next tile need not fetch again (rules R1-R4 in docs/reference/cost-model.md).

    TIMELOOP: overlap with the previous tile while the window keeps sliding the same way, with that
        tool's extrapolation of every loop from its first two iterations.
    WALK: the same rule walked truly.
    RESIDENT: whatever is still in the buffer.
    WHOLE: nothing; a tile that moves is fetched whole, as into the other half of a double buffer.
    """

    TIMELOOP = 0
    WALK = 1
    RESIDENT = 2
    WHOLE = 3

    @classmethod
    def parse(cls, name: str) -> "Reuse":
        """The rule of that name.

        Raises:
            UserError: There is none.
        """
        if name.upper() not in cls.__members__:
            raise unknown_name("reuse rule", name, [rule.name.lower() for rule in cls])
        return cls[name.upper()]


class Problem(NamedTuple):
    """A computation on an architecture.

    Attributes:
        bounds: ``D``.
        axes: ``T`` number of axes.
        terms: ``K x 2`` (dimension, coefficient) of every term of every axis, tensor by tensor, axis by axis.
        first_term: ``T x (A + 1)`` where the terms of each axis start; the next entry is where they end.
        axis_of: ``T x D`` the axis a dimension moves the tensor along, -1 if none (the first one if entangled).
        step_of: ``T x D`` its coefficient there, 0 if none.
        coef: ``T x A x D`` coefficient of each dimension on each axis, for entangled tensors.
        entangled: ``T`` 1 where one dimension stands on two axes of the tensor.
        tensor_words: ``T`` words of the whole tensor, holes included.
        element_bits: ``L x T`` bits one element occupies.
        capacity_bits: ``L`` (`UNBOUNDED` where there is no limit).
        energy: ``L x T x 3`` pJ per element: read, fill, update.
        bandwidth: ``L x 2`` words per cycle and instance: read, write; 0 is unlimited.
        one_port: ``L`` 1 where reads and writes take turns on one port.
        words: ``L x T`` words one element takes (for bandwidth).
        fanout: ``L x 2`` children along X and Y.
        shares: ``L`` 1 where equal words are read once for all children.
        peers: ``L`` 1 where children take words from their neighbours.
        hops: ``L x 2`` hops per word sent: constant part, part per copy.
        hop_energy: ``L x T`` pJ per element and hop.
        mac_energy: pJ.
        macs: multiply-accumulates.
        reuse: value of `Reuse`.
        mesh: fan-outs that are meshes.
    """

    bounds: IntArray
    axes: IntArray
    terms: IntArray
    first_term: IntArray
    axis_of: IntArray
    step_of: IntArray
    coef: IntArray
    entangled: IntArray
    tensor_words: IntArray
    element_bits: IntArray
    capacity_bits: IntArray
    energy: FloatArray
    bandwidth: FloatArray
    one_port: IntArray
    words: FloatArray
    fanout: IntArray
    shares: IntArray
    peers: IntArray
    hops: FloatArray
    hop_energy: FloatArray
    mac_energy: float
    macs: int
    reuse: int
    mesh: MeshArrays


def may_keep(keep: frozenset[str], tensor: Tensor) -> bool:
    """Whether a level's keep set, of roles and tensor names, admits a tensor."""
    return tensor.name in keep or tensor.role.value in keep


def encode_problem(computation: Computation, architecture: Architecture, reuse: Reuse = Reuse.TIMELOOP) -> Problem:
    """The arrays of a computation on an architecture.

    Raises:
        UserError: A level has no energy figures yet, or the output is indexed by a sum of dimensions.
    """
    _check_output(computation)
    if reuse is Reuse.WHOLE and any(level.fanout.links is Links.PEER for level in architecture.levels):
        raise UserError(
            "the reuse rule 'whole' is not defined for links 'peer': neighbours hand on words that a buffer keeps",
            where=f"architecture {architecture.name!r}",
            hint="take another reuse rule, or links multicast, systolic or none",
        )
    tensors, levels = computation.tensors, architecture.levels
    coef, first_term, axis_of, terms = _relations(computation)
    element_bits, words, energy, hop_energy = _prices(computation, architecture)
    bounds = np.array(computation.bounds, np.int64)
    return Problem(
        bounds=bounds,
        axes=np.array([len(t.axes) for t in tensors], np.int64),
        terms=terms,
        first_term=first_term,
        axis_of=axis_of,
        step_of=np.where(axis_of >= 0, np.take_along_axis(coef, np.maximum(axis_of, 0)[:, None, :], axis=1)[:, 0], 0),
        coef=coef,
        entangled=((coef > 0).sum(axis=1).max(axis=1) > 1).astype(np.int64),
        tensor_words=np.array([computation.tensor_words(t) for t in tensors], np.int64),
        element_bits=element_bits,
        capacity_bits=np.array([UNBOUNDED if v.capacity_bits is None else v.capacity_bits for v in levels], np.int64),
        energy=energy,
        bandwidth=np.array([[words or 0.0 for words in v.words_per_cycle] for v in levels]),
        one_port=np.array([v.ports is Ports.SHARED for v in levels], np.int64),
        words=words,
        fanout=np.array([[v.fanout.x, v.fanout.y] for v in levels], np.int64),
        shares=np.array([v.fanout.shares for v in levels], np.int64),
        peers=np.array([v.fanout.links is Links.PEER for v in levels], np.int64),
        hops=np.array([_hops(v.fanout.x, v.fanout.y, v.fanout.links) for v in levels]),
        hop_energy=hop_energy,
        mac_energy=_mac_energy(computation, architecture),
        macs=computation.macs,
        reuse=reuse.value,
        mesh=make_mesh(computation, architecture, bounds, coef),
    )


def _relations(computation: Computation) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Which dimensions index which axis of which tensor, by what step.

    Returns:
        Coefficients ``T x A x D``; first term of each axis ``T x A+1``; axis by tensor and dimension ``T x D``, -1 where
        there is none; dimension and coefficient of every term.
    """
    dims, tensors = computation.dims, computation.tensors
    n_axes = max(1, max(len(t.axes) for t in tensors))
    coef = np.zeros((len(tensors), n_axes, len(dims)), np.int64)
    first_term = np.zeros((len(tensors), n_axes + 1), np.int64)
    axis_of = np.full((len(tensors), len(dims)), -1, np.int64)
    terms: list[tuple[int, int]] = []
    for t, tensor in enumerate(tensors):
        for a, axis in enumerate(tensor.axes):
            first_term[t, a] = len(terms)
            for dim, coefficient in axis.terms:
                d = dims.index(dim)
                coef[t, a, d] = coefficient
                axis_of[t, d] = a if axis_of[t, d] < 0 else axis_of[t, d]
                terms.append((d, coefficient))
        first_term[t, len(tensor.axes) :] = len(terms)
    return coef, first_term, axis_of, np.array(terms, np.int64).reshape(-1, 2)


def _prices(
    computation: Computation, architecture: Architecture
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """By level and tensor: bits of an element, words of an element, energy (read, fill, update) and energy of a hop, both in pJ."""
    tensors, levels = computation.tensors, architecture.levels
    element_bits = np.zeros((len(levels), len(tensors)), np.int64)
    words = np.zeros((len(levels), len(tensors)))
    energy = np.zeros((len(levels), len(tensors), 3))
    hop_energy = np.zeros((len(levels), len(tensors)))
    for v, level in enumerate(levels):
        if level.energy is None:
            raise UserError(
                f"level {level.name!r} has no energy per access",
                where=f"architecture {architecture.name!r}",
                hint="give `energy`, or name a technology that fills it in",
            )
        per_word = (level.energy.read_pj, level.energy.fill_pj, level.energy.update_pj)
        for t, tensor in enumerate(tensors):
            # partial sums are as wide as the accumulator everywhere but in the outermost level (rule C3)
            width = tensor.bits if v == 0 else tensor.partial_bits
            bits = level.element_bits(width)
            element_bits[v, t] = bits
            words[v, t] = bits / level.word_bits
            energy[v, t] = [e * bits / level.word_bits for e in per_word]
            hop_energy[v, t] = level.fanout.hop_pj_per_bit * width
    return element_bits, words, energy, hop_energy


def _mac_energy(computation: Computation, architecture: Architecture) -> float:
    energy_pj = architecture.mac.energy_of([t.bits for t in computation.inputs])
    if energy_pj is None:
        raise UserError(
            "the MAC has no energy figure",
            where=f"architecture {architecture.name!r}",
            hint="give `mac: {energy_pj: ...}`, or name a technology that fills it in",
        )
    return energy_pj


def _hops(x: int, y: int, links: Links) -> tuple[float, float]:
    """Hops of one word sent: (constant, per copy). Rules N1-N3 in docs/reference/cost-model.md; a mesh counts its links (N8)."""
    if x * y == 1 or links is Links.MESH:
        return 0.0, 0.0
    if links is Links.SYSTOLIC:
        return 0.0, 1.0
    if links is Links.NONE:
        return (x + y) / 2.0, 0.0
    return float(x + y), 0.0


def _check_output(computation: Computation) -> None:
    for axis in computation.output.axes:
        if len(axis.terms) != 1 or axis.terms[0][1] != 1:
            raise UserError(
                f"output index {axis} must be a single dimension",
                where=str(computation),
                hint="write the computation as a gather: sums of dimensions belong into the inputs",
            )
    names = [axis.terms[0][0] for axis in computation.output.axes]
    if len(set(names)) != len(names):
        raise UserError("a dimension indexes two axes of the output", where=str(computation))
