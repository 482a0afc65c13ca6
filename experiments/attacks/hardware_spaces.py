"""Random small hardware spaces over random hierarchies, to hold exact search against enumeration."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from codesign.arch.architecture import (
    AccessEnergy,
    Architecture,
    Arithmetic,
    Fanout,
    LevelKind,
    Links,
    Ports,
    StorageLevel,
)
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from spaces.design import DesignSpace
from spaces.parameters import Categorical, Ordinal
from spaces.space import Space

ROLES = ("input", "weight", "output")


@dataclass(frozen=True)
class RandomBuilder:
    """A hierarchy drawn from a seed, four of whose figures are parameters.

    Args:
        seed: Of everything that is not a parameter.
    """

    seed: int

    def __call__(self, point: Any) -> Architecture:
        """The hierarchy with the figures of a point."""
        rng = np.random.default_rng(self.seed)
        depth = int(rng.integers(1, 4))
        fan = int(rng.integers(0, depth + 1))
        levels = [
            StorageLevel(
                "DRAM",
                LevelKind.DRAM,
                word_bits=int(rng.choice([8, 32, 64])),
                read_bandwidth_words_per_cycle=float(rng.choice([0.25, 1.0, 4.0])),
                write_bandwidth_words_per_cycle=float(rng.choice([0.25, 1.0, 4.0])),
                ports=Ports(str(rng.choice(["shared", "separate"]))),
                energy=AccessEnergy(*(float(v) for v in rng.uniform(20, 200, 3))),
                fanout=self._fanout(point) if fan == 0 else Fanout(),
            )
        ]
        for k in range(1, depth + 1):
            keep = frozenset(r for r in ROLES if rng.random() < 0.7) or frozenset({"weight"})
            size = int(rng.choice([64, 256, 1024, 8192])) // (4 if k > fan else 1)
            if k == 1:
                size *= int(point["times"])
            limited = rng.random() < 0.6
            scale = (size / 64) ** 0.5
            levels.append(
                StorageLevel(
                    f"L{k}",
                    LevelKind.SRAM,
                    float(max(size, 32)),
                    int(rng.choice([8, 24, 64])),
                    bool(rng.random() < 0.15),
                    keep,
                    float(rng.choice([0.5, 2.0, 8.0])) * int(point["ports"]) if limited else None,
                    float(rng.choice([0.5, 2.0, 8.0])) if limited else None,
                    Ports(str(rng.choice(["shared", "separate"]))),
                    energy=AccessEnergy(*(float(v) * scale for v in rng.uniform(0.1, 3.0, 3))),
                    area_mm2=1e-3 * scale * (1 + 0.2 * int(point["ports"])),
                    leakage_mw=float(rng.choice([0.0, 0.01])) * scale,
                    fanout=self._fanout(point) if k == fan else Fanout(),
                )
            )
        mac = Arithmetic(8, 0.5, 1e-3, float(rng.choice([0.0, 0.001])))
        return Architecture("random", tuple(levels), mac, 1e9, None, 0.01, 0.0)

    @staticmethod
    def _fanout(point: Any) -> Fanout:
        return Fanout(int(point["columns"]), int(np.ceil(int(point["columns"]) / 2)), Links(point["links"]), 0.01)


def random_space(seed: int) -> DesignSpace:
    """36 designs, or fewer."""
    parameters = [
        Ordinal("columns", [1, 3, 4]),
        Categorical("links", ["none", "systolic", "multicast"]),
        Ordinal("times", [1, 2]),
        Ordinal("ports", [1, 3]),
    ]
    return DesignSpace(f"random-{seed}", Space(parameters), RandomBuilder(seed), bits=8, partial_bits=24)


def random_network(seed: int) -> Network:
    """Two or three layers of random shapes."""
    rng = np.random.default_rng([seed, 1])
    net = NetworkBuilder("random", bits=8, partial_bits=24)
    side, channels = int(rng.choice([3, 4, 6])), int(rng.choice([2, 4, 6]))
    x = net.input("x", (1, channels, side, side))
    wide = int(rng.choice([4, 6, 8]))
    y = net.conv(x, wide, int(rng.choice([1, 3])), stride=int(rng.choice([1, 2])), padding=1, name="first")
    y = net.relu(y)
    if rng.random() < 0.5:
        y = net.conv(y, wide, 3, padding=1, groups=wide, name="depthwise")
    return net.build(net.conv(y, int(rng.choice([5, 6])), 1, name="last"))
