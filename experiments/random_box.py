"""Black boxes drawn at random: mixed discrete spaces with known fronts, so that no optimiser is tuned to a few of them.

A box is a function of its number alone. Five kinds take turns:

- `roofline`: a few thousand designs; latency is a sum over layers of the slowest of several resources with ceilings, energy and area
  are sums of powers of sizes, labels act on each by factors;
- `corner`: a small space in which small designs are best in almost everything, so that the front lies in a corner, and
  some designs fail for a rule the optimiser does not know;
- `failing`: a roofline of which between a fifth and two thirds of the designs fail for such a rule;
- `ruled`: a larger space with a rule the optimiser knows, two or four objectives and two labels;
- `smooth`: sums of waves and trends that may be negative and know nothing of accelerators.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from codesign.optim.pareto import front
from spaces import AbstractParameter, Categorical, Constraint, Integer, Ordinal, PowerOfTwo, Space

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

KINDS = ("roofline", "corner", "failing", "ruled", "smooth")

_SIZES = {"roofline": (800, 12_000), "corner": (150, 1_200), "failing": (800, 12_000)}
_SIZES |= {"ruled": (4_000, 40_000), "smooth": (400, 12_000)}


@final
@dataclass(frozen=True)
class RandomBox:
    """A black box with a known front.

    Args:
        space: The designs.
        objectives: The metrics to minimise.
        values: Of every design in the order of `Space.enumerate`: ``n x m``.
        works: Which designs do not fail: ``n``.
        power_limit_w: None: there is no bound on power.
    """

    space: Space
    objectives: tuple[str, ...]
    values: Floats
    works: Bools
    power_limit_w: float | None = None

    @cached_property
    def _positions(self) -> dict[bytes, int]:
        return {row.tobytes(): k for k, row in enumerate(self.space.enumerate())}

    def evaluate(self, point: dict[str, Any]) -> tuple[dict[str, float], bool]:
        """The metrics of one design and whether it works; none for one that does not."""
        position = self._positions[self.space.to_indices([point])[0].tobytes()]
        if not self.works[position]:
            return {}, False
        return dict(zip(self.objectives, self.values[position].tolist(), strict=True)), True

    def exact_front(self) -> Floats:
        """The front of the whole space, in objective units: ``k x m``."""
        return front(self.values[self.works])


@cache
def random_box(number: int) -> RandomBox:
    """The box of that number, the same in every process."""
    rng = np.random.default_rng([2011, number])
    kind = KINDS[number % len(KINDS)]
    space = _space(kind, rng)
    rows = space.enumerate()
    if kind == "smooth":
        values = _smooth(space.features(rows), int(rng.integers(2, 4)), rng)
        return RandomBox(space, _names(values), values, np.ones(len(rows), dtype=np.bool_))
    sizes, labels = _columns(space, rows)
    values = _corner(sizes, labels, rng) if kind == "corner" else _roofline(sizes, labels, rng)
    if kind == "ruled":
        values = values[:, [0, 2]] if rng.random() < 0.5 else np.column_stack([values, values[:, 1] / values[:, 0]])
    works = np.ones(len(rows), dtype=np.bool_)
    if kind in ("corner", "failing"):
        demand = (
            np.log(sizes) @ rng.choice([-1.0, 0.0, 1.0, 1.0], sizes.shape[1]) + rng.normal(0.0, 0.7, 4)[labels[:, 0]]
        )
        works = demand <= np.quantile(demand, rng.uniform(0.35, 0.8))
    return RandomBox(space, _names(values), values, works)


def _names(values: Floats) -> tuple[str, ...]:
    return tuple(f"metric{k}" for k in range(values.shape[1]))


def _space(kind: str, rng: np.random.Generator) -> Space:
    """Three to six sizes and one or two labels, within the limits of the kind."""
    low, high = _SIZES[kind]
    while True:
        parameters: list[AbstractParameter] = [_size(f"size{k}", rng) for k in range(int(rng.integers(3, 7)))]
        for k in range(2 if kind == "ruled" else 1):
            parameters.append(Categorical(f"label{k}", list("abcd")[: int(rng.integers(2, 5))]))
        space = Space(parameters)
        if low <= space.cardinality_bound <= high:
            break
    if kind != "ruled":
        return space
    largest = [float(max(p.choices)) for p in parameters[:2]]
    limit = int(math.sqrt(largest[0] * largest[1] * 16.0))
    return Space(parameters, [Constraint("product", f"size0 * size1 <= {limit}", "the two do not fit together")])


def _size(name: str, rng: np.random.Generator) -> AbstractParameter:
    form = int(rng.integers(4))
    if form == 0:
        low = 2 ** int(rng.integers(0, 6))
        return PowerOfTwo(name, low, low * 2 ** int(rng.integers(2, 7)))
    if form == 1:
        step = int(rng.choice([2, 4, 8]))
        return Ordinal(name, [step * k for k in range(1, int(rng.integers(4, 11)))])
    if form == 2:
        return Integer(name, 1, int(rng.integers(3, 9)))
    return Ordinal(name, sorted({int(v) for v in 8.0 * 2.0 ** rng.uniform(0.0, 4.0, int(rng.integers(2, 5)))} | {8}))


def _columns(space: Space, rows: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """The values of sizes (``n x s``) and the choices of labels (``n x l``)."""
    sizes, labels = [], []
    for column, parameter in enumerate(space.parameters):
        if parameter.ordered:
            sizes.append(np.array(parameter.choices, dtype=np.float64)[rows[:, column]])
        else:
            labels.append(rows[:, column])
    return np.stack(sizes, axis=1), np.stack(labels, axis=1)


def _factors(labels: NDArray[np.int64], spread: float, rng: np.random.Generator) -> Floats:
    """What the labels multiply a term by: ``n``."""
    result = np.ones(len(labels))
    for column in labels.T:
        result *= np.exp(rng.normal(0.0, spread, 4))[column]
    return result


def _powers(sizes: Floats, labels: NDArray[np.int64], terms: int, rng: np.random.Generator) -> Floats:
    """A sum of products of powers of some sizes, each term of about equal weight in the middle of the space: ``n``."""
    total = np.zeros(len(sizes))
    for term in range(terms):
        used = np.less(rng.random(sizes.shape[1]), 0.5)
        used[term % sizes.shape[1]] = True
        value = np.exp(np.log(sizes) @ (used * rng.uniform(0.4, 1.0, sizes.shape[1]))) * _factors(labels, 0.3, rng)
        total += rng.lognormal(0.0, 0.7) * value / np.median(value)
    return total


def _latency(sizes: Floats, labels: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """A sum over layers of the slowest of three resources, with ceilings: ``n``."""
    n, s = sizes.shape
    used = np.less(rng.random((3, s)), 0.5)
    used[np.arange(3), rng.permutation(max(3, s))[:3] % s] = True
    weights = rng.lognormal(0.0, 0.5, 3)
    factors = [_factors(labels, 0.4, rng) for _ in range(3)]
    total = np.zeros(n)
    for _ in range(8):
        slowest = np.zeros(n)
        for resource in range(3):
            loops = np.exp(rng.uniform(np.log(8.0), np.log(1024.0), s)).astype(np.int64)
            steps = np.ceil(loops / sizes) / (loops / np.median(sizes, axis=0))
            time = np.prod(np.where(used[resource], steps, 1.0), axis=1)
            slowest = np.maximum(slowest, weights[resource] * rng.lognormal(0.0, 0.7) * time * factors[resource])
        total += rng.lognormal(0.0, 1.0) * slowest
    return total


def _roofline(sizes: Floats, labels: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Latency, energy and area: ``n x 3``."""
    latency, area = _latency(sizes, labels, rng), _powers(sizes, labels, sizes.shape[1], rng)
    reuse = np.exp(-0.5 * np.log(sizes) @ (rng.random(sizes.shape[1]) < 0.6)) * _factors(labels, 0.4, rng)
    energy = 0.5 + rng.uniform(0.3, 2.0) * reuse / np.median(reuse)
    energy += rng.uniform(0.1, 0.5) * _powers(sizes, labels, 2, rng) ** 0.5
    energy += rng.uniform(0.02, 0.3) * (latency / np.median(latency)) * (area / np.median(area))
    return np.stack([latency, energy, area], axis=1)


def _corner(sizes: Floats, labels: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Two or three metrics that grow with nearly every size: ``n x m``."""
    columns = []
    for _ in range(int(rng.integers(2, 4))):
        against = (rng.random(sizes.shape[1]) < 0.2) * rng.uniform(0.1, 0.4, sizes.shape[1])
        columns.append(_powers(sizes, labels, sizes.shape[1], rng) * np.exp(-np.log(sizes) @ against))
    return np.stack(columns, axis=1)


def _smooth(features: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Trends and waves over the features: ``n x m``."""
    columns = []
    for _ in range(count):
        total = features @ rng.normal(0.0, 1.0, features.shape[1])
        for _ in range(6):
            wave = features @ rng.normal(0.0, 2.5, features.shape[1])
            total = total + rng.normal(0.0, 0.4) * np.cos(wave + rng.uniform(0.0, 2.0 * np.pi))
        columns.append(total)
    return np.stack(columns, axis=1)
