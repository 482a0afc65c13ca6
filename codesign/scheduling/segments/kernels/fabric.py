"""Words on links: unicasts, multicasts and DRAM transfers on a network of cores (rules M21 to M26).

Sites are places of the mesh with one column of DRAM ports on either side: site (x, y) is number ``(x + 1) * height + y``
for x from -1 to width. On a mesh with X-Y routing link ``4 * site + direction`` leaves a site; other networks have tables of
links and ways (`codesign.arch.core_network`, rule M115). A counter is one array: totals first, then all links.
"""

from typing import NamedTuple

from codesign.core.jit import njit, njit_inline
from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.kernels.core_mapper import ceil_div

EAST, WEST, NORTH, SOUTH = 0, 1, 2, 3

HOPS, DIE_HOPS, CORE_HOPS, DRAM, PORTS = 0, 1, 2, 3, 4
LINKS = 8
"""Entries of a counter: words x links, words x links between dies, words x links between cores, DRAM words, those of each of up to four
DRAMs, then words of every link; where steps are bounded (rule M33), then those that every site sends and receives."""

BETWEEN, INSIDE, START = 0, 1, 2
"""Rows of `Fabric.links`: borders of dies that a link crosses, its pitches besides, the place it leaves."""

ALL_DRAMS = -2

DIE_MARGIN_PERCENT = 30
"""Share of `Fabric.margin` that words on links between dies have: their routers have time to wait for flits (rule M33)."""

SET, GEMINI, OWN = 0, 1, 2
"""Whose counting rules hold."""


class Fabric(NamedTuple):
    """The network of a system.

    Attributes:
        width: Cores along x.
        height: Cores along y.
        order: Site of each core, in the order in which cores are shared out (rule M3).
        die_width: Cores of a die along x.
        die_height: Along y.
        link_words: Words a cycle of a link.
        die_link_words: Words a cycle of a link between dies.
        dram_words: Words a cycle of each DRAM.
        drams: Number of DRAMs.
        ports: Sites of the ports of each DRAM, drams x ports.
        links: Of all links the rows `BETWEEN`, `INSIDE`, `START`.
        before: Last link on the way from a place to another, ways x places x places; empty on a mesh with X-Y routing.
        mark: Room: what was sent over each place last, by number, and behind them how many there were.
        counting: `SET`, `GEMINI` or `OWN`: whose rules count hops between dies and divide batches.
        drop_shifted: Whether a consumer's range that starts before its producer's channels gives no traffic (a fault of the release).
        fill: Cycles from the first word of a step to its last on an empty way; 0 where links bound whole segments alone (rule M33).
        margin: Percent by which words on links and at cores are counted higher than they are (rule M33).
    """

    width: int
    height: int
    order: IntArray
    die_width: int
    die_height: int
    link_words: int
    die_link_words: int
    dram_words: int
    drams: int
    ports: IntArray
    links: IntArray
    before: IntArray
    mark: IntArray
    counting: int
    drop_shifted: int
    fill: int
    margin: int


def counter_size(fabric: Fabric) -> int:
    """Entries of a counter."""
    ends = 2 * (fabric.width + 2) * fabric.height
    return LINKS + int(fabric.links.shape[1]) + (ends if fabric.fill > 0 else 0)


@njit
def count_ends(fabric: Fabric, counter: IntArray, source: int, targets: IntArray, words: int) -> None:
    """Count words where a core sends them (-1 for none) and where cores receive them, itself apart (rule M33)."""
    if fabric.fill == 0:
        return
    sites = (fabric.width + 2) * fabric.height
    sends, sent = LINKS + fabric.links.shape[1], 0
    for t in range(targets.shape[0]):
        if targets[t] != source:
            counter[sends + sites + targets[t]] += words
            sent = words
    if source >= 0:
        counter[sends + source] += sent


@njit
def _along_x(fabric: Fabric, counter: IntArray, start: int, end: int, y: int, words: int) -> None:
    """Count words on a row from column start to column end, both shifted by one."""
    step = 4 * fabric.height
    if start < end:
        link = LINKS + 4 * (start * fabric.height + y) + EAST
        for _ in range(start, end):
            counter[link] += words
            link += step
    else:
        link = LINKS + 4 * (start * fabric.height + y) + WEST
        for _ in range(end, start):
            counter[link] += words
            link -= step


@njit
def _along_y(counter: IntArray, site: int, start: int, end: int, words: int) -> None:
    """Count words on a column from row start to row end; `site` is that of row 0."""
    if start < end:
        for y in range(start, end):
            counter[LINKS + 4 * (site + y) + NORTH] += words
    else:
        for y in range(end, start):
            counter[LINKS + 4 * (site + y + 1) + SOUTH] += words


@njit
def crossings(low: int, high: int, step: int) -> int:
    """Borders of dies between two coordinates as the release counts them; -1 is allowed for `low`."""
    if high < step:
        return 0
    edge = high - high % step
    return 1 + (edge - 1 - low) // step if edge > low else 0


@njit
def _unicast_crossings(fabric: Fabric, source: int, target: int) -> int:
    """Borders on the way of a unicast as the release counts them: none while both rows are in the first row of dies."""
    height = fabric.height
    y0, y1 = min(source % height, target % height), max(source % height, target % height)
    if y1 < fabric.die_height:
        return 0
    x0 = min(source // height, target // height) - 1
    x1 = max(source // height, target // height) - 1
    return crossings(x0, x1, fabric.die_width) + crossings(y0, y1, fabric.die_height)


@njit
def _along_way(fabric: Fabric, counter: IntArray, which: int, source: int, target: int, words: int) -> int:
    """Send words from a source over one way to a target, as far as the last multicast has not been; words x pitches."""
    stamp, at, total = fabric.mark[fabric.mark.shape[0] - 1], target, 0
    while at != source and fabric.mark[at] != stamp:
        fabric.mark[at] = stamp
        link = fabric.before[which, source, at]
        counter[LINKS + link] += words
        total += words * (fabric.links[INSIDE, link] + fabric.links[BETWEEN, link])
        at = fabric.links[START, link]
    return total


@njit
def _part_of_way(fabric: Fabric, which: int, words: int) -> int:
    """Begin a multicast over one of the ways; returns its part of the words: equal ones where there are two (rule M115)."""
    ways = fabric.before.shape[0]
    fabric.mark[fabric.mark.shape[0] - 1] += 1
    return words * (which + 1) // ways - words * which // ways  # type: ignore[no-any-return]


@njit
def unicast(fabric: Fabric, counter: IntArray, source: int, target: int, words: int) -> int:
    """Send words along x, then along y; returns words x links (rule M21)."""
    if fabric.before.shape[0] > 0:
        total = 0
        for which in range(fabric.before.shape[0]):
            total += _along_way(fabric, counter, which, source, target, _part_of_way(fabric, which, words))
        return total
    height = fabric.height
    sx, sy, tx, ty = source // height, source % height, target // height, target % height
    _along_x(fabric, counter, sx, tx, sy, words)
    _along_y(counter, tx * height, sy, ty, words)
    return (abs(sx - tx) + abs(sy - ty)) * words


@njit
def multicast(fabric: Fabric, counter: IntArray, source: int, targets: IntArray, words: int) -> int:
    """Send words to several cores: a trunk along the row of the source, a branch in every column (rule M22).

    Args:
        fabric: The network.
        counter: Receives the words of links, and the hops between dies of multicasts under Gemini's rules.
        source: Site that sends.
        targets: Sites that receive, sorted.
        words: How many.

    Returns:
        Words x links.
    """
    if fabric.before.shape[0] > 0:
        total = 0
        for which in range(fabric.before.shape[0]):
            part = _part_of_way(fabric, which, words)
            for t in range(targets.shape[0]):
                total += _along_way(fabric, counter, which, source, targets[t], part)
        return total
    height = fabric.height
    n = targets.shape[0]
    sx, sy = source // height, source % height
    x0, x1 = targets[0] // height, targets[n - 1] // height
    if x0 < sx:
        _along_x(fabric, counter, sx, x0, sy, words)
    if x1 > sx:
        _along_x(fabric, counter, sx, x1, sy, words)
    hops = max(sx, x1) - min(sx, x0)
    borders = crossings(min(sx, x0) - 1, max(sx, x1) - 1, fabric.die_width)
    first = 0
    while first < n:
        x = targets[first] // height
        last = first
        while last + 1 < n and targets[last + 1] // height == x:
            last += 1
        y0, y1 = targets[first] % height, targets[last] % height
        if y0 < sy:
            _along_y(counter, x * height, sy, y0, words)
        if y1 > sy:
            _along_y(counter, x * height, sy, y1, words)
        hops += max(sy, y1) - min(sy, y0)
        borders += crossings(min(sy, y0), max(sy, y1), fabric.die_width)  # the release takes the step along x here too
        first = last + 1
    if fabric.counting == GEMINI and (fabric.die_width < fabric.width or fabric.die_height < height):
        counter[DIE_HOPS] += borders * words
    return hops * words  # type: ignore[no-any-return]


@njit
def _one_dram(fabric: Fabric, counter: IntArray, cores: IntArray, words: int, dram: int, leaving: bool) -> None:
    """Move words between one DRAM and a group, in equal parts over its ports (rule M24)."""
    ports = fabric.ports.shape[1]
    before = 0
    for j in range(ports):
        until = words * (j + 1) // ports
        part = until - before
        before = until
        port = fabric.ports[dram, j]
        if cores.shape[0] > 1:
            counter[HOPS] += multicast(fabric, counter, port, cores, part)
            continue
        source, target = (cores[0], port) if leaving else (port, cores[0])
        hops = unicast(fabric, counter, source, target, part)
        if fabric.counting == GEMINI:
            borders = _unicast_crossings(fabric, source, target) * part
            counter[DIE_HOPS] += borders
            hops -= borders
        counter[HOPS] += hops
    counter[DRAM] += words
    counter[PORTS + dram] += words


@njit
def move_dram(fabric: Fabric, counter: IntArray, cores: IntArray, words: int, dram: int, leaving: bool) -> None:
    """Move words between DRAM and a group of cores (rules M24, M25).

    Args:
        fabric: The network.
        counter: Receives all counts.
        cores: Sites of the group, sorted; one only where words leave.
        words: Words, counted once for the group.
        dram: Which DRAM; negative for all, a quarter each.
        leaving: Whether words go to DRAM.
    """
    if leaving and fabric.fill > 0:
        counter[LINKS + fabric.links.shape[1] + cores[0]] += words
    elif fabric.fill > 0:
        count_ends(fabric, counter, -1, cores, words)
    if fabric.drams == 1:
        _one_dram(fabric, counter, cores, words, 0, leaving)
    elif dram >= 0:
        _one_dram(fabric, counter, cores, words, dram, leaving)
    else:
        for each in range(fabric.drams):
            _one_dram(fabric, counter, cores, words // fabric.drams, each, leaving)


@njit
def recount_hops(fabric: Fabric, counter: IntArray) -> None:
    """Under our own rules hops are words x pitches of links, and those between dies are all that cross a border (M26, M112)."""
    inside, between = 0, 0
    for link in range(fabric.links.shape[1]):
        words = counter[LINKS + link]
        if words > 0:
            inside += words * fabric.links[INSIDE, link]
            between += words * fabric.links[BETWEEN, link]
    counter[HOPS] = inside
    counter[DIE_HOPS] = between


@njit
def dram_cycles(fabric: Fabric, counter: IntArray) -> int:
    """Cycles of the busiest DRAM."""
    cycles = 0
    for dram in range(fabric.drams):
        cycles = max(cycles, ceil_div(counter[PORTS + dram], fabric.dram_words))
    return cycles


@njit_inline
def _busiest_links(fabric: Fabric, counter: IntArray) -> tuple[int, int]:
    """Words of the busiest link on a die, and between dies."""
    inside, between = 0, 0
    for link in range(fabric.links.shape[1]):
        words = counter[LINKS + link]
        if fabric.links[BETWEEN, link] > 0:
            between = max(between, words)
        else:
            inside = max(inside, words)
    return inside, between


@njit
def link_cycles(fabric: Fabric, counter: IntArray) -> int:
    """Cycles of the busiest link of either kind."""
    inside, between = _busiest_links(fabric, counter)
    return max(ceil_div(inside, fabric.link_words), ceil_div(between, fabric.die_link_words))


@njit
def _stretched(words: int, pace: int, percent: int) -> int:
    """Cycles of words at a pace, and so many percent more."""
    cycles = (words + pace - 1) // pace
    return cycles * (100 + percent) // 100


@njit
def words_cycles(fabric: Fabric, counter: IntArray) -> int:
    """Cycles of the busiest DRAM, link, sender or receiver (rule M33).

    Words that come from other dies come slowly and hold ways of others: part of their cycles and of the DRAM's is added.
    """
    inside, between = _busiest_links(fabric, counter)
    for end in range(LINKS + fabric.links.shape[1], counter.shape[0]):
        inside = max(inside, counter[end])
    dram, full = dram_cycles(fabric, counter), _stretched(inside, fabric.link_words, 0)
    cycles = max(dram, _stretched(inside, fabric.link_words, fabric.margin))
    if between == 0:
        return cycles
    slow = _stretched(between, fabric.die_link_words, 0)
    cycles = max(cycles, slow * (100 + fabric.margin * DIE_MARGIN_PERCENT // 100) // 100)
    return max(cycles, full + (slow + dram) * fabric.margin // 100)


@njit
def filled_cycles(fabric: Fabric, counter: IntArray, slowdown: int) -> int:
    """So many times `words_cycles`, and those in which the way fills; 0 where nothing moves (rule M33)."""
    cycles = words_cycles(fabric, counter) * slowdown
    return cycles + fabric.fill if cycles > 0 else 0


@njit
def crowding_cycles(fabric: Fabric, counter: IntArray, together: IntArray) -> int:
    """Cycles of other words on any DRAM, and where one's own take at least half as long as on the busiest (rule M33).

    Args:
        fabric: The network.
        counter: One's own words.
        together: All words.
    """
    ends, busiest, cycles = LINKS + fabric.links.shape[1], 0, 0
    for dram in range(fabric.drams):
        busiest = max(busiest, counter[PORTS + dram] // fabric.dram_words)
        cycles = max(cycles, (together[PORTS + dram] - counter[PORTS + dram]) // fabric.dram_words)
    for at in range(LINKS, counter.shape[0]):
        pace = fabric.link_words
        if at < ends and fabric.links[BETWEEN, at - LINKS] > 0:
            pace = fabric.die_link_words
        busiest = max(busiest, counter[at] // pace)
    for at in range(LINKS, counter.shape[0]):
        pace, percent = fabric.link_words, fabric.margin
        if at < ends and fabric.links[BETWEEN, at - LINKS] > 0:
            pace, percent = fabric.die_link_words, fabric.margin * DIE_MARGIN_PERCENT // 100
        if 2 * counter[at] > busiest * pace:
            cycles = max(cycles, _stretched(together[at] - counter[at], pace, percent))
    return cycles
