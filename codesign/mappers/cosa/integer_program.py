"""The aggregated CoSA program: how many equal prime factors go to every level, spatially or temporally.

CoSA assigns single prime factors (Q. Huang et al., ISCA 2021, table III) and ranks those of the network level. Equal
primes of one dimension are interchangeable, so their number per (level, spatial or temporal) says the same, and of the
ranks only matters which tensors stay put while the innermost loops run: a choice among few nested sets of
tensors (`chains`). Equation numbers below are the paper's; docs/explanation/cosa.md derives the rest.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum

from codesign.arch.architecture import Fanout
from codesign.core.errors import UserError
from codesign.mappers.cosa.matrices import Matrices, Reading, make_matrices
from codesign.mappers.cosa.solvers import LinearProgram, Row
from codesign.mappers.resident_orders import Chain, chain_phase, make_chains
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.mapping.space import make_space
from codesign.workloads.computation import Role


class Form(Enum):
    """What is minimised: the weighted sum (equation 12), or the difference of its traffic and compute terms."""

    WEIGHTED = "weighted"
    BALANCE = "balance"


@dataclass(frozen=True)
class Weights:
    """Weights of the objective; the defaults are those of the published program.

    Args:
        utilization: Of the logarithms of buffer use, which are maximised.
        compute: Of the logarithm of the cycles.
        traffic: Of the logarithms of the tensors' traffic.
        share: Part of the traffic weight on everything but the iterations of the loops at and outside the network level.
        innermost: Weight of a tile factor at the innermost level, relative to `share`.
        step: What is added to it per level outwards.
        weight_iterations: Weight of the outer iterations of a weight tensor; other tensors have 1.
        weight_buffer: Weight of the use of the outermost weight buffer inside the network level; others have 1.
    """

    utilization: float = 0.1
    compute: float = 10.0
    traffic: float = 1.0
    share: float = 0.99
    innermost: float = 0.8
    step: float = 0.04
    weight_iterations: float = 1.01
    weight_buffer: float = 1.01

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise UserError(f"weight `{name}` must be a number >= 0, got {value!r}", where="CoSA")


PUBLISHED = Weights()


@dataclass(frozen=True)
class Place:
    """A variable: how many of a group's equal primes lie in one slot.

    Args:
        group: Number of the group.
        dim: Dimension.
        prime: The prime.
        level: Level, 0 outermost.
        axis: None for temporal loops; 0 or 1 along X or Y; 0 also where the two axes are taken as one.
    """

    group: int
    dim: int
    prime: int
    level: int
    axis: int | None


@dataclass(frozen=True)
class Settings:
    """How the program is set up.

    Args:
        reading: Which published form.
        weights: Of the objective.
        form: Weighted sum or balance.
        network_level: The level whose loop order is chosen and whose fan-out is the network; None: the outermost on chip.
        input_share: Share of a level that inputs get beside an output; None: as the reading says.
        by_axis: Whether the X and Y limits of a fan-out are kept apart; the paper knows their product only.
        tightened: Triples (level, tensor, bits): the logarithm of the tensor's share is lowered by so many bits.
    """

    reading: Reading = Reading.PAPER
    weights: Weights = PUBLISHED
    form: Form = Form.WEIGHTED
    network_level: str | None = None
    input_share: float | None = None
    by_axis: bool = False
    tightened: tuple[tuple[int, int, float], ...] = ()


@dataclass(frozen=True)
class Program:
    """One instance.

    Args:
        problem: What is scheduled.
        settings: How it was set up.
        matrices: Its constants.
        places: The count variables.
        group_of: The group of every prime of the map space.
        chains: Possible choices at the network level: nested sets of tensors, largest first.
        linear: The program; its variables are the places, then one per chain, the saving, then helpers.
        weighted_cost: Its objective in the form of the weighted sum.
        gains: Per chain, what one unit of a place saves (pairs of place and weighted bits).
        network: Index of the network level.
    """

    problem: MappingProblem
    settings: Settings
    matrices: Matrices
    places: tuple[Place, ...]
    group_of: tuple[int, ...]
    chains: tuple[Chain, ...]
    linear: LinearProgram
    weighted_cost: tuple[float, ...]
    gains: tuple[tuple[tuple[int, float], ...], ...]
    network: int

    def limit_bits(self, v: int, t: int) -> float:
        """Logarithm of the elements of a tensor that the program lets a level hold (equation 2)."""
        lowered = sum(bits for level, tensor, bits in self.settings.tightened if (level, tensor) == (v, t))
        return math.log2(self.matrices.elements[v][t]) - lowered

    def tile_bits(self, values: tuple[float, ...], v: int, t: int) -> float:
        """Logarithm of a tensor's tile at a level as the program counts it, halos apart."""
        return sum(
            n * prime_bits(self.matrices, p, t) for n, p in zip(values, self.places, strict=False) if p.level >= v
        )

    def price(self, values: tuple[float, ...]) -> float:
        """The weighted objective of a tiling under the loop order that saves most."""
        cost = sum(c * n for c, n in zip(self.weighted_cost, values[: len(self.places)], strict=False))
        return cost - max(sum(g * values[i] for i, g in gain) for gain in self.gains)

    def tie_break(self, distance: float) -> LinearProgram:
        """The program of the weighted sum among the schedules of a BALANCE program at no more than a distance."""
        last = len(self.linear.upper) - 1  # the distance is the last variable
        upper = (*self.linear.upper[:last], distance + 1e-6)
        return replace(self.linear, upper=upper, cost=self.weighted_cost)

    def chain_of(self, values: tuple[float, ...]) -> Chain:
        """The chain a solution chose."""
        choice = values[len(self.places) : len(self.places) + len(self.chains)]
        return self.chains[max(range(len(choice)), key=lambda c: choice[c])]


def make_program(problem: MappingProblem, settings: Settings) -> Program:
    """The program of a problem.

    Raises:
        UserError: Unknown network level, or constraints that contradict each other.
    """
    reading = settings.reading
    matrices = make_matrices(problem, reading, settings.input_share)
    network = _network_level(problem, settings.network_level)
    space = make_space(problem if settings.by_axis else flattened(problem))
    levels = len(problem.architecture.levels)
    groups: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
    for p in range(space.prime.shape[0]):
        slots = tuple(int(s) for s in space.choices[p, : space.n_choices[p]])
        dim = int(space.prime_dim[p])
        if reading is Reading.HEAD and any(matrices.window[dim]) and 0 in slots:
            slots = (0,)
        key = (dim, int(space.prime[p]), slots)
        groups.setdefault(key, []).append(p)
    places = [
        Place(g, dim, prime, *_slot(slot, levels)) for g, (dim, prime, slots) in enumerate(groups) for slot in slots
    ]
    group_of = {p: g for g, members in enumerate(groups.values()) for p in members}
    counts = tuple(len(members) for members in groups.values())
    order = tuple(group_of[p] for p in range(len(group_of)))
    return _Builder(problem, settings, matrices, network, counts, tuple(places)).build(order)


def flattened(problem: MappingProblem) -> MappingProblem:
    """The problem with every fan-out laid along one axis, as the paper's S_I has it (equation 4)."""
    architecture = problem.architecture
    levels = tuple(replace(v, fanout=Fanout(x=v.fanout.size, links=v.fanout.links)) for v in architecture.levels)
    rules = tuple(replace(item, along_x=None) for item in problem.constraints.levels)
    return MappingProblem(
        problem.computation, replace(architecture, levels=levels), Constraints(rules, problem.constraints.free_bypass)
    )


def _slot(slot: int, levels: int) -> tuple[int, int | None]:
    return (slot, None) if slot < levels else ((slot - levels) // 2, (slot - levels) % 2)


def _network_level(problem: MappingProblem, name: str | None) -> int:
    architecture = problem.architecture
    if name is None:
        return min(1, len(architecture.levels) - 1)
    architecture.level(name)
    return architecture.level_index[name]


def prime_bits(matrices: Matrices, place: Place, tensor: int) -> float:
    """Bits one prime adds to a tile of a tensor; the stride enters with every prime, as published."""
    if not matrices.relevant[place.dim][tensor]:
        return 0.0
    return math.log2(place.prime * matrices.stride[place.dim][tensor])


class _Builder:
    """Collects rows; one method per equation."""

    def __init__(
        self,
        problem: MappingProblem,
        settings: Settings,
        matrices: Matrices,
        network: int,
        counts: tuple[int, ...],
        places: tuple[Place, ...],
    ) -> None:
        self.problem, self.settings, self.matrices = problem, settings, matrices
        self.network, self.places = network, places
        self.levels = problem.architecture.levels
        self.roles = tuple(t.role for t in problem.computation.tensors)
        self.counts = counts
        self.upper: list[float] = [float(counts[p.group]) for p in places]
        self.integral = [True] * len(places)
        self.cost = [0.0] * len(places)
        self.rows: list[Row] = []
        self.gains: list[list[tuple[int, float]]] = []

    def build(self, group_of: tuple[int, ...]) -> Program:
        """The finished program."""
        chains = make_chains(self.matrices.relevant)
        choice = [self._add(1.0, True) for _ in chains]
        saving = self._add(0.0, False, -1.0)
        for g, count in enumerate(self.counts):
            terms = tuple((i, 1.0) for i, p in enumerate(self.places) if p.group == g)
            self.rows.append(Row(terms, float(count), float(count)))
        self._fan_outs()
        for v in range(1, len(self.levels)):
            for t, stored in enumerate(self.matrices.stored[v]):
                if stored and self.matrices.elements[v][t] < math.inf:
                    self._capacity(v, t)
        for i, place in enumerate(self.places):
            self.cost[i] = sum(self._place_costs(place))
        self._savings(chains, choice, saving)
        weighted = list(self.cost)
        if self.settings.form is Form.BALANCE:
            self._balance(saving)
            weighted.append(0.0)
        linear = LinearProgram(tuple(self.upper), tuple(self.integral), tuple(self.cost), tuple(self.rows))
        gains = tuple(tuple(gain) for gain in self.gains)
        return Program(
            self.problem, self.settings, self.matrices, self.places, group_of, chains, linear, tuple(weighted), gains, self.network
        )  # fmt: skip

    def _add(self, upper: float, integral: bool, cost: float = 0.0) -> int:
        self.upper.append(upper)
        self.integral.append(integral)
        self.cost.append(cost)
        return len(self.upper) - 1

    def _fan_outs(self) -> None:
        """Equation 4: spatial factors fit the children of their level."""
        for v, level in enumerate(self.levels):
            for axis in (0, 1):
                size = level.fanout.size if not self.settings.by_axis else (level.fanout.x, level.fanout.y)[axis]
                terms = tuple(
                    (i, math.log2(p.prime)) for i, p in enumerate(self.places) if p.level == v and p.axis == axis
                )
                if terms:
                    self.rows.append(Row(terms, None, math.log2(size)))

    def _capacity(self, v: int, t: int) -> None:
        """Equation 2: a tile fits its share; with halos if the reading has them and the level is inside the network."""
        limit = math.log2(self.matrices.elements[v][t])
        limit -= sum(bits for level, tensor, bits in self.settings.tightened if (level, tensor) == (v, t))
        terms = [(i, prime_bits(self.matrices, p, t)) for i, p in enumerate(self.places) if p.level >= v]
        base = [(i, bits) for i, bits in terms if bits]
        alternatives: list[list[tuple[int, float]]] = [base]
        if self.settings.reading is Reading.PRE and v > self.network:
            for window, sliding in self.matrices.slid_by[t]:
                whole, exact = self._halo(v, window, sliding)
                alternatives = [a + more for a in alternatives for more in (whole, exact) if more] or alternatives
        for alternative in alternatives:
            merged: dict[int, float] = {}
            for i, bits in alternative:
                merged[i] = merged.get(i, 0.0) + bits
            if merged or limit < 0:
                self.rows.append(Row(tuple(merged.items()), None, limit))

    def _halo(
        self, v: int, window: int, sliding: tuple[int, ...]
    ) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """Two lower bounds on the bits a window adds: one if the tile slides under it, else the window's own size.

        A tile of `p` outputs needs ``p + r - 1`` inputs, at most ``2 p`` where r <= p + 1; without any factor of p it
        needs r. Returns the terms of either bound.
        """
        inner = [(i, p) for i, p in enumerate(self.places) if p.dim == window and p.level >= self.network]
        moves = [i for i, p in enumerate(self.places) if p.dim in sliding and p.level >= v]
        if not inner:
            return [], []
        any_inside = self._add(1.0, True)
        for i, _ in inner:
            self.rows.append(Row(((i, 1.0), (any_inside, -self.upper[i])), None, 0.0))
        slides = self._add(1.0, True)
        self.rows.append(Row(((slides, 1.0), *((i, -1.0) for i in moves)), None, 0.0))
        groups = {p.group: math.log2(p.prime) * self.upper[i] for i, p in inner}
        most = sum(groups.values())
        exact = [(i, math.log2(p.prime)) for i, p in inner]
        return [(any_inside, 1.0)], [*exact, (slides, -most)]

    def _savings(self, chains: tuple[Chain, ...], choice: list[int], saving: int) -> None:
        """Equations 9 and 10: what the chosen loop order of the network level saves, already weighted."""
        iterations = [self._iterations(t) for t in range(len(self.roles))]
        at_network = [i for i, p in enumerate(self.places) if p.level == self.network and p.axis is None]
        for chain in chains:
            gain = []
            for i in at_network:
                place = self.places[i]
                phase = chain_phase(chain, self.matrices.relevant[place.dim])
                if phase < len(chain):
                    worth = self.settings.weights.traffic * sum(iterations[t] for t in chain[phase])
                    gain.append((i, worth * math.log2(place.prime)))
            self.gains.append(gain)
        most = max(self._largest(gain) for gain in self.gains)
        self.upper[saving] = most
        self.rows.append(Row(tuple((z, 1.0) for z in choice), 1.0, 1.0))
        for z, gain in zip(choice, self.gains, strict=True):
            terms = ((saving, 1.0), *((i, -g) for i, g in gain))
            self.rows.append(Row((*terms, (z, most)), None, most))  # at most the gain of the chosen chain
            if self.settings.form is Form.BALANCE:
                self.rows.append(Row((*terms, (z, -most)), -most, None))  # and no less

    def _balance(self, saving: int) -> None:
        """The paper's other objective: the distance of the traffic term from the compute term is minimised instead."""
        terms = [(saving, -1.0)]
        for i, place in enumerate(self.places):
            compute, traffic, _ = self._place_costs(place)
            if traffic != compute:
                terms.append((i, traffic - compute))
        self.cost = [0.0] * len(self.cost)
        most = sum(abs(c) * self.upper[i] for i, c in terms) + 1.0
        distance = self._add(most, False, 1.0)
        self.rows.append(Row(((distance, 1.0), *((i, -c) for i, c in terms)), 0.0, None))
        self.rows.append(Row(((distance, 1.0), *terms), 0.0, None))

    def _largest(self, gain: list[tuple[int, float]]) -> float:
        return sum({self.places[i].group: g * self.upper[i] for i, g in gain}.values())

    def _iterations(self, t: int) -> float:
        return self.settings.weights.weight_iterations if self.roles[t] is Role.WEIGHT else 1.0

    def _place_costs(self, place: Place) -> tuple[float, float, float]:
        """What one prime in a slot adds to equation 12, weighted: compute, traffic without savings, utilisation."""
        w = self.settings.weights
        bits = math.log2(place.prime)
        depth = len(self.levels) - 1 - place.level
        compute = bits if place.axis is None else 0.0
        traffic = 0.0
        for t in range(len(self.roles)):
            if place.level > self.network:  # equation 7, a level's factors weighted by how far out it is
                traffic += w.share * (w.innermost + w.step * depth) * bits * self.matrices.relevant[place.dim][t]
            elif place.axis is not None:  # equation 8 without A, as published
                traffic += w.share * bits
            else:  # equation 10, all loops counted
                traffic += self._iterations(t) * bits
        return w.compute * compute, w.traffic * traffic, -w.utilization * self._use(place)

    def _use(self, place: Place) -> float:
        """Equation 5 for the levels inside the network level."""
        buffers = [v for v in range(self.network + 1, len(self.levels)) if self._keeps_weight(v)]
        use = 0.0
        for v in range(self.network + 1, place.level + 1):
            for t, stored in enumerate(self.matrices.stored[v]):
                factor = self.settings.weights.weight_buffer if buffers and v == buffers[0] else 1.0
                use += factor * stored * prime_bits(self.matrices, place, t)
        return use

    def _keeps_weight(self, v: int) -> bool:
        return any(k and r is Role.WEIGHT for k, r in zip(self.matrices.stored[v], self.roles, strict=True))
