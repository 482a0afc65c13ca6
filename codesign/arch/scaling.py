"""Scaling of energy and area between CMOS nodes.

Rule T1: A. Stillmaker and B. Baas, "Scaling equations for the accurate prediction of CMOS device performance from
180 nm to 7 nm", Integration 58, 2017: energy factors as quadratics in the supply voltage, area factors as a table.
Between the nodes of the tables the factor is interpolated in the logarithm of both node and factor.
Rule T2: leakage keeps its ratio to the switching energy, so it is scaled by the same factor.
Rule T3: the energy of a wire per millimetre follows the power law through the two nodes of S. W. Keckler et al., "GPUs
and the future of parallel computing", IEEE Micro 31(5), 2011, Table 1: 256 bits over 10 mm take 310 pJ at 40 nm and
200 pJ at 10 nm. Wire pitch is proportional to the node.
"""

import math
from bisect import bisect_left

from codesign.core.errors import UserError

_NODES_NM = (130.0, 90.0, 65.0, 45.0, 32.0, 20.0, 16.0, 14.0, 10.0, 7.0)
NODE_RANGE_NM = (min(_NODES_NM), max(_NODES_NM))
"""Smallest and largest node that constants are scaled to."""


# energy = a V^2 + b V + c per node, arbitrary unit (Stillmaker and Baas 2017)
_ENERGY = (
    (7.171, -6.709, 2.904),
    (4.762, -4.781, 2.092),
    (3.755, -4.398, 1.975),
    (1.103, -0.362, 0.2767),
    (0.9559, -0.7823, 0.471),
    (0.373, -0.1582, 0.04104),
    (0.2958, -0.1241, 0.03024),
    (0.2363, -0.09675, 0.02239),
    (0.2068, -0.09311, 0.02375),
    (0.1776, -0.09097, 0.02447),
)

# area relative to 45 nm (Stillmaker and Baas 2017)
_AREA = (6.4, 2.8, 1.5, 1.0, 0.46, 0.21, 0.19, 0.17, 0.1, 0.059)

# Supply at which the energies are compared: 0.9 V at 45 nm is that of the arithmetic table (Horowitz 2014),
# 1.0 V at 65 nm that of the Eyeriss chip (Chen et al., JSSC 2017); the others are usual nominal supplies.
_VOLTAGE_V = (1.2, 1.1, 1.0, 0.9, 0.9, 0.8, 0.8, 0.8, 0.75, 0.7)


def energy_factor(from_nm: float, to_nm: float) -> float:
    """Switching energy at one node relative to another, each at its nominal supply (T1).

    >>> round(energy_factor(45, 12), 2)
    0.1
    """
    energies = [a * v * v + b * v + c for (a, b, c), v in zip(_ENERGY, _VOLTAGE_V, strict=True)]
    return _interpolate(energies, to_nm) / _interpolate(energies, from_nm)


def area_factor(from_nm: float, to_nm: float) -> float:
    """Area of the same logic at one node relative to another (T1).

    >>> area_factor(45, 65)
    1.5
    """
    return _interpolate(_AREA, to_nm) / _interpolate(_AREA, from_nm)


def wire_energy_factor(from_nm: float, to_nm: float) -> float:
    """Energy of a bit over a millimetre at one node relative to another (T3)."""
    power = math.log(310 / 200) / math.log(40 / 10)
    return float((to_nm / from_nm) ** power)


def _interpolate(values: tuple[float, ...] | list[float], node_nm: float) -> float:
    if not _NODES_NM[-1] <= node_nm <= _NODES_NM[0]:
        raise UserError(f"`node_nm` must be between {_NODES_NM[-1]:g} and {_NODES_NM[0]:g}, got {node_nm:g}")
    rising = _NODES_NM[::-1]
    ordered = list(values)[::-1]
    right = bisect_left(rising, node_nm)
    if rising[right] == node_nm:
        return ordered[right]
    left = right - 1
    share = math.log(node_nm / rising[left]) / math.log(rising[right] / rising[left])
    return ordered[left] * math.exp(share * math.log(ordered[right] / ordered[left]))
