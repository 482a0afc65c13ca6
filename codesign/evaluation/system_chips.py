"""The dies of a system as chips that share every layer of a language model.

* M95: A die is a chip with its share of the DRAM bandwidth. Layers are mapped one by one, the mesh being a fan-out
  with multicast.
* M96: Each die takes a share of every layer. Sums go around a ring, over all links between two neighbouring dies.
* M97: A ring of neighbours exists for two dies, or an even number in two rows and columns at least. Else its last
  transfer goes back along the way.
"""

from dataclasses import replace

from codesign.arch.architecture import Architecture
from codesign.arch.many_core import Dies, ManyCore, Memories
from codesign.arch.many_core_scaling import architecture_of, edge_ports, fitting_stride
from codesign.workloads.serving import Chips, Collective


def one_die(system: ManyCore) -> ManyCore:
    """A die of a system by itself, with its share of the DRAM bandwidth (rule M95)."""
    wide, high = system.width // system.dies.x, system.height // system.dies.y
    words = system.memories.words_per_cycle_each * len(system.memories.ports) // system.dies.count
    memories = Memories(edge_ports(wide, high, 1), max(1, words), system.memories.pj_per_word, system.memories.kind)
    dies = replace(system.dies, x=1, y=1, lanes=0, mw_per_lane=0.0) if system.dies.count > 1 else Dies()
    stride = fitting_stride(wide, 1)
    name = f"die of {system.name}" if system.dies.count > 1 else system.name
    return replace(system, name=name, width=wide, height=high, stride=stride, memories=memories, dies=dies)


def die_architecture(system: ManyCore) -> Architecture:
    """A die as levels of storage: DRAM, the buffers of its cores, those of its processing elements (rules M74, M95)."""
    return architecture_of(one_die(system))


def chips_of(system: ManyCore) -> Chips:
    """The dies as chips on a ring (rules M96 and M97).

    A ring of neighbours exists where `is_closed`. Else it follows the dies row by row, to and fro, and its last transfer goes
    back along the way, on the links of the other direction. No directed link is used twice in a step.
    """
    dies = system.dies
    if dies.count == 1:
        return Chips()
    wide, high = system.width // dies.x, system.height // dies.y
    rows = [side for side, cut in ((high, dies.x), (wide, dies.y)) if cut > 1]
    per_second = system.clock_ghz * 1e9
    steps = 1 if is_closed(dies) else dies.count - 1
    cycles = steps * max(wide, high)
    pj = dies.pj_per_word_hop + (max(wide, high) - 1) * system.links.pj_per_word_hop
    return Chips(
        dies.count, min(rows) * dies.words_per_cycle * per_second, cycles / per_second, pj, Collective.RING
    )  # fmt: skip


def is_closed(dies: Dies) -> bool:
    """Whether a ring through all dies has neighbours only: an even number of them, in two rows and columns at least, or two dies."""
    return dies.count == 2 or (dies.count % 2 == 0 and min(dies.x, dies.y) > 1)
