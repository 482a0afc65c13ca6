"""The dies of a system as chips that share every layer of a language model.

* M95: A die is a chip with its share of the DRAM bandwidth. Layers are mapped one by one, the mesh being a fan-out
  with multicast.
* M96: Each die takes a share of every layer. Sums go around a ring, over all links between two neighbouring dies.
* M97: A ring of neighbours exists for two dies, or an even number in two rows and columns at least. Else its last
  transfer goes back along the way.
* M98: A stage of layers is a rectangle of dies, all of one size; stages follow each other to and fro. Each die sends
  to the one of the same place in the next stage, and all these words cross one face of the rectangle.
* M99: With step times of trees (`serving_trees.py`) all dies of a stage are one system with their share of the DRAM
  bandwidth. The tree shares layers between cores and dies, so that nothing is left to add up.
"""

from dataclasses import replace

from codesign.arch.architecture import Architecture
from codesign.arch.many_core import Dies, ManyCore
from codesign.arch.many_core_scaling import architecture_of, edge_ports, fitting_stride
from codesign.core.errors import UserError
from codesign.core.factors import divisors
from codesign.workloads.chips import Chips, Collective, StageLink


def one_die(system: ManyCore) -> ManyCore:
    """A die of a system by itself, with its share of the DRAM bandwidth (rule M95)."""
    alone = rectangle(system, Dies())
    return replace(alone, name=f"die of {system.name}" if system.dies.count > 1 else system.name)


def rectangle(system: ManyCore, block: Dies) -> ManyCore:
    """Some dies of a system by themselves, with their share of the DRAM bandwidth at one controller.

    Links around the sides of a torus do not come with a part of its dies, which is a mesh.
    """
    if system.kinds:
        raise UserError("models are served by dies of equal cores alone", where=f"system {system.name!r}")
    wide, high = _sides(system)
    wide, high = wide * block.x, high * block.y
    whole = system.memories
    words = whole.words_per_cycle_each * len(whole.ports) * block.count // system.dies.count
    memories = replace(whole, ports=edge_ports(wide, high, 1), words_per_cycle_each=max(1, words))
    dies = replace(system.dies, x=block.x, y=block.y)
    if block.count == 1:
        dies = replace(dies, lanes=0, mw_per_lane=0.0) if system.dies.count > 1 else Dies()
    stride = fitting_stride(wide, block.x)
    name = f"{block.x} x {block.y} dies of {system.name}"
    network = system.network
    if network.topology == "torus" and block.count < system.dies.count:
        network = replace(network, topology="mesh")
    return replace(
        system, name=name, width=wide, height=high, stride=stride, memories=memories, dies=dies, network=network
    )


def staged(system: ManyCore, stages: int) -> tuple[ManyCore, Chips]:
    """The dies of one stage as a system of its own, and the stages as chips (rule M99).

    Raises:
        UserError: No equal rectangles are as many, or cores on a ring are cut into stages.
    """
    block = _block_of(system, stages)
    if block.count < system.dies.count:
        _refuse_ring(system)
    way = _way_between(system, block)
    if way is None:
        return system, Chips()
    way = replace(way, link_bytes_per_s=way.link_bytes_per_s * block.count)
    return rectangle(system, block), Chips(stages, stages=stages, between=way)


def die_architecture(system: ManyCore) -> Architecture:
    """A die as levels of storage: DRAM, the buffers of its cores, those of its processing elements (rules M74, M95)."""
    return architecture_of(one_die(system))


def chips_of(system: ManyCore, stages: int = 1) -> Chips:
    """The dies as chips in stages, each a rectangle of dies with a ring (rules M96 to M98).

    A ring of neighbours exists where `is_closed`. Else it follows the dies row by row, to and fro, and its last transfer goes
    back along the way, on the links of the other direction. No directed link is used twice in a step.

    Raises:
        UserError: No equal rectangles are as many, or cores on a ring: few of its links join two dies.
    """
    _refuse_ring(system)
    block = _block_of(system, stages)
    within, between = _ring_of(system, block), _way_between(system, block)
    if within is None and between is None:
        return Chips()
    ring = within or between
    assert ring is not None
    return Chips(
        system.dies.count,
        ring.link_bytes_per_s,
        ring.link_latency_s,
        ring.link_pj_per_byte,
        Collective.RING,
        stages,
        between=between,
    )


def _refuse_ring(system: ManyCore) -> None:
    if system.network.topology == "ring" and system.dies.count > 1:
        raise UserError(
            "dies that share layers are joined by a mesh or a torus, got a ring of cores",
            where=f"system {system.name!r}",
            hint="`network: {topology: mesh}`",
        )


def block_of(dies: Dies, stages: int) -> Dies | None:
    """The dies of a stage: of all rectangles that tile the dies, one with a ring of neighbours, then the squarest; None for none."""
    count = dies.count // stages
    found = [
        replace(dies, x=x, y=count // x)
        for x in divisors(count)
        if dies.count % stages == 0 and dies.x % x == 0 and dies.y % (count // x) == 0
    ]
    return min(found, key=lambda block: (not is_closed(block), abs(block.x - block.y)), default=None)


def _block_of(system: ManyCore, stages: int) -> Dies:
    """The dies of a stage, with the system's name where there are none.

    Raises:
        UserError: No equal rectangles are as many.
    """
    block = block_of(system.dies, stages)
    if block is None:
        raise UserError(
            f"{system.dies.x} x {system.dies.y} dies cannot be cut into {stages} equal rectangles, one for each stage",
            where=f"system {system.name!r}",
        )
    return block


def _ring_of(system: ManyCore, block: Dies) -> StageLink | None:
    """A step of the ring through the dies of a stage; None for one die."""
    if block.count == 1:
        return None
    wide, high = _sides(system)
    faces = [side for side, cut in ((high, block.x), (wide, block.y)) if cut > 1]
    steps = 1 if is_closed(block) else block.count - 1
    dies = system.dies
    pj = dies.pj_per_word_hop + (max(wide, high) - 1) * system.links.pj_per_word_hop
    return _link(system, min(faces), steps * max(wide, high), pj)


def _way_between(system: ManyCore, block: Dies) -> StageLink | None:
    """From a die to the same place of the next stage, stages row by row, to and fro: all words cross one face of the rectangle."""
    dies = system.dies
    if block.count == dies.count:
        return None
    wide, high = _sides(system)
    ways = []
    if dies.x > block.x:
        ways.append((high * block.y, wide * block.x, block.x))
    if dies.y > block.y:
        ways.append((wide * block.x, high * block.y, block.y))
    links = min(links for links, _, _ in ways)
    hops, crossed = max((hops, crossed) for _, hops, crossed in ways)
    pj = crossed * dies.pj_per_word_hop + (hops - crossed) * system.links.pj_per_word_hop
    return _link(system, links / block.count, hops, pj)


def _sides(system: ManyCore) -> tuple[int, int]:
    """Cores of a die along x and y."""
    return system.width // system.dies.x, system.height // system.dies.y


def _link(system: ManyCore, links: float, cycles: int, pj: float) -> StageLink:
    per_second = system.clock_ghz * 1e9
    return StageLink(links * system.dies.words_per_cycle * per_second, cycles / per_second, pj)


def is_closed(dies: Dies) -> bool:
    """Whether a ring through all dies has neighbours only: an even number of them, in two rows and columns at least, or two dies."""
    return dies.count <= 2 or (dies.count % 2 == 0 and min(dies.x, dies.y) > 1)
