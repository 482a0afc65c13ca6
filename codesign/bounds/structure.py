"""The prices of a machine, apart from what it can do: the least energy is concave, homogeneous and monotone in them (rule LB8).

So exact searches at two price vectors bound all between; above them the least accesses cost the difference. A machine that can
do less needs at least the energy of one that can do more. Outside LB3 to LB6 the most able machine stands for all open designs
with equal arrays.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import AccessEnergy, Architecture

Floats = NDArray[np.float64]


def prices_of(architecture: Architecture) -> Floats:
    """Read, fill, update and hop energy of every level, then that of a MAC: ``4 L + 1``."""
    found: list[float] = []
    for level in architecture.levels:
        energy = level.energy or AccessEnergy(0.0, 0.0, 0.0)
        found += [energy.read_pj, energy.fill_pj, energy.update_pj, level.fanout.hop_pj_per_bit]
    return np.array([*found, architecture.mac.least_energy_pj])


def with_prices(architecture: Architecture, prices: Floats) -> Architecture:
    """The machine with these prices (`prices_of`) and no limit on any bandwidth."""
    levels = []
    for k, level in enumerate(architecture.levels):
        read, fill, update, hop = (float(p) for p in prices[4 * k : 4 * k + 4])
        levels.append(
            replace(
                level,
                energy=AccessEnergy(read, fill, update),
                fanout=replace(level.fanout, hop_pj_per_bit=hop),
                read_bandwidth_words_per_cycle=None,
                write_bandwidth_words_per_cycle=None,
                area_mm2=None,
                leakage_mw=None,
                banks=1,
            )
        )
    mac = replace(
        architecture.mac, energy_pj=float(prices[-1]), by_width=(), unpack_pj=0.0, area_mm2=None, leakage_mw=None
    )
    return Architecture("structure", tuple(levels), mac)
