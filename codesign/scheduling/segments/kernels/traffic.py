"""Words that one run of a layer moves, part by part: weights, inputs, outputs (rules M17 to M20)."""

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.core_mapper import BIG, Cores, ceil_div
from codesign.scheduling.segments.kernels.fabric import (
    CORE_HOPS,
    GEMINI,
    HOPS,
    LINKS,
    Fabric,
    count_ends,
    move_dram,
    multicast,
    unicast,
)
from codesign.scheduling.segments.kernels.layout import Groups, Layout, members_of, volume


@njit
def _repeated_batches(producer: IntArray, consumer: IntArray, from_batch: int, to_batch: int) -> int:
    """Samples that both ranges hold when the one of the smaller batch is repeated along the larger."""
    small, big, step = producer, consumer, from_batch
    if from_batch > to_batch:
        small, big, step = consumer, producer, to_batch
    first, past = small[2], small[3]
    total = 0
    while first < big[3]:
        if past > big[2]:
            total += min(past, big[3]) - max(first, big[2])
        first += step
        past += step
    return total


@njit
def common_words(producer: IntArray, consumer: IntArray, shift: int, from_batch: int, to_batch: int) -> int:
    """Words of a producer's tile that a consumer's range needs (rule M19).

    Args:
        producer: Output range of a tile.
        consumer: Input range, over all concatenated channels.
        shift: Channels before those of the producer.
        from_batch: Samples of a run of the producer.
        to_batch: Samples of a run of the consumer.
    """
    size = min(producer[1], consumer[1] - shift) - max(producer[0], consumer[0] - shift)
    if size <= 0:
        return 0
    for d in range(2, 4):
        length = min(producer[2 * d + 1], consumer[2 * d + 1]) - max(producer[2 * d], consumer[2 * d])
        if length <= 0:
            return 0
        size *= length
    if from_batch == to_batch:
        return size * max(0, min(producer[3], consumer[3]) - max(producer[2], consumer[2]))  # type: ignore[no-any-return]
    return size * _repeated_batches(producer, consumer, from_batch, to_batch)  # type: ignore[no-any-return]


@njit
def between_layers(
    fabric: Fabric, counter: IntArray, tiles: Groups, groups: Groups, shift: int, from_batch: int, to_batch: int
) -> None:
    """Words from the cores of a producer to the groups of a consumer (rules M19, M20).

    Args:
        fabric: The network.
        counter: Receives words of links and hops.
        tiles: Of the producer.
        groups: Of the consumer.
        shift: Channels of the consumer's input before those of this producer.
        from_batch: Samples of a run of the producer.
        to_batch: Samples of a run of the consumer.
    """
    ratio = from_batch // to_batch if from_batch > to_batch else 1
    total, ranges, sites = 0, tiles.ranges, tiles.sites
    for g in range(groups.number[0]):
        need = groups.ranges[g]
        if need[1] <= shift or (need[0] < shift and fabric.drop_shifted == 1):
            continue
        group = members_of(groups, g)
        for t in range(tiles.number[0]):
            words = common_words(ranges[t], need, shift, from_batch, to_batch)
            if fabric.counting != GEMINI:
                words //= ratio
            if words == 0:
                continue
            if group.shape[0] == 1:
                total += unicast(fabric, counter, sites[t], group[0], words)
            else:
                total += multicast(fabric, counter, sites[t], group, words)
            count_ends(fabric, counter, sites[t], group, words)
    if fabric.counting == GEMINI:
        total //= ratio
    counter[HOPS] += total
    counter[CORE_HOPS] += total


@njit
def channels_from_dram(fabric: Fabric, counter: IntArray, groups: Groups, first: int, past: int, dram: int) -> None:
    """Read a range of channels of the groups' ranges from DRAM (rule M18)."""
    for g in range(groups.number[0]):
        need = groups.ranges[g]
        words = max(0, min(need[1], past) - max(need[0], first))
        for d in range(1, 4):
            words *= max(0, need[2 * d + 1] - need[2 * d])
        if words > 0:
            move_dram(fabric, counter, members_of(groups, g), words, dram, False)


@njit
def stored_weights(fabric: Fabric, counter: IntArray, groups: Groups, dram: int, runs: int, fetches: int) -> None:
    """Weights from DRAM, once for all runs of the whole batch (rule M17).

    Args:
        fabric: The network.
        counter: Empty before.
        groups: Of weights.
        dram: Which DRAM.
        runs: Runs over which the words are spread; every count is floored.
        fetches: Times they are read in a run.
    """
    for g in range(groups.number[0]):
        move_dram(fabric, counter, members_of(groups, g), volume(groups.ranges[g]), dram, False)
    if runs > 1:
        for i in range(counter.shape[0]):
            counter[i] //= runs
    if fetches > 1:
        counter[:] *= fetches


@njit
def written_outputs(fabric: Fabric, counter: IntArray, tiles: Groups, dram: int) -> None:
    """Every output tile to DRAM (rule M18)."""
    for t in range(tiles.number[0]):
        words = volume(tiles.ranges[t])
        if words > 0:
            move_dram(fabric, counter, members_of(tiles, t), words, dram, True)


@njit
def scale_links(counter: IntArray, times: int) -> None:
    """Repeat the words of links alone (what the release does with transfers after a repeated fetch of weights)."""
    for link in range(LINKS, counter.shape[0]):
        counter[link] *= times


@njit
def piece_words(layer: IntArray, need: IntArray, fetch: IntArray) -> int:
    """Input words of a piece of a group's range (rule M27).

    Args:
        layer: Row of the table of layers.
        need: Range of the group.
        fetch: Pieces of channels, batch, height, width, and how often inputs and weights are fetched; the first is 0 for none.
    """
    words = volume(need)
    if fetch[0] == 0 or words == 0:
        return words
    channels, batch, height, width = need[1] - need[0], need[3] - need[2], need[5] - need[4], need[7] - need[6]
    if layout.is_vector(layer[layout.TYPE]):
        return ceil_div(channels, fetch[0]) * batch * height * width  # type: ignore[no-any-return]
    if fetch[2] != 1:
        height = _piece(height, layer[layout.R], layer[layout.STRIDE_H], fetch[2])
    if fetch[3] != 1:
        width = _piece(width, layer[layout.S], layer[layout.STRIDE_W], fetch[3])
    return ceil_div(batch, fetch[1]) * channels * height * width  # type: ignore[no-any-return]


@njit
def _piece(size: int, kernel: int, stride: int, pieces: int) -> int:
    """Input rows of a piece of the output rows."""
    return ceil_div(size - kernel + stride, stride * pieces) * stride - stride + kernel


@njit
def piece_weights(need: IntArray, fetch: IntArray) -> int:
    """Weight words of a piece of a group's range (rule M27)."""
    words = volume(need)
    if fetch[0] == 0 or words == 0:
        return words
    batch, channels = ceil_div(need[3] - need[2], fetch[1]), ceil_div(need[1] - need[0], fetch[0])
    return batch * channels * (need[5] - need[4]) * (need[7] - need[6])  # type: ignore[no-any-return]


@njit
def buffer_use(layer: IntArray, place: Layout, fetch: IntArray, reserve: IntArray, usage: IntArray) -> None:
    """Bytes that a layer needs on each site (rule M31).

    Args:
        layer: Row of the table of layers.
        place: Where it is.
        fetch: See `piece_words`.
        reserve: Bytes for outputs at each site whose core holds inputs.
        usage: Receives the needs while running, of inputs, and of weights; 3 x sites.
    """
    usage[:] = 0
    operands = layer[layout.OPERANDS] if layer[layout.TYPE] == layout.ELTWISE else 1
    inputs, weights = place.inputs, place.weights
    for g in range(inputs.number[0]):
        words = piece_words(layer, inputs.ranges[g], fetch) * operands
        for site in members_of(inputs, g):
            usage[1, site] += words
    row = 1 if layer[layout.BATCHED_WEIGHT] == 1 else 2
    for g in range(weights.number[0]):
        words = piece_weights(weights.ranges[g], fetch)
        for site in members_of(weights, g):
            usage[row, site] += words
    for site in inputs.sites[: inputs.starts[inputs.number[0]]]:
        usage[0, site] = usage[1, site] + reserve[site]
    if row == 1:
        for site in weights.sites[: weights.starts[weights.number[0]]]:
            usage[0, site] = usage[1, site] + reserve[site]


@njit
def received_words(groups: Groups) -> int:
    """Words that all cores of all groups receive."""
    words = 0
    for g in range(groups.number[0]):
        words += volume(groups.ranges[g]) * (groups.starts[g + 1] - groups.starts[g])
    return words


@njit
def priced_words(groups: Groups, cores: Cores, site_kind: IntArray, access: int) -> float:
    """Energy of one access of the big buffers to the words of all groups, each core at the price of its kind."""
    energy = 0.0
    for g in range(groups.number[0]):
        words = volume(groups.ranges[g])
        for site in members_of(groups, g):
            energy += words * cores.pj[site_kind[site], BIG, access]
    return energy


@njit
def filling_energy(layer: IntArray, place: Layout, batch: int, runs: int, fetch: IntArray, big: FloatArray) -> float:
    """Energy of filling and reading the big buffers by the network, pJ of a run (rule M28).

    Args:
        layer: Row of the table of layers.
        place: Where it is.
        batch: Samples of a run.
        runs: Over which weights are spread.
        fetch: See `piece_words`.
        big: Read and write energy of a word.
    """
    weights, inputs = received_words(place.weights), received_words(place.inputs)
    if layer[layout.TYPE] == layout.ELTWISE:
        inputs *= layer[layout.OPERANDS]
    times_in, times_weights = (1, 1) if fetch[0] == 0 else (fetch[4], fetch[5])
    filled = weights * big[1]
    if layer[layout.BATCHED_WEIGHT] == 0:
        filled /= runs
    outputs = layer[layout.OUT_K] * layer[layout.OUT_H] * layer[layout.OUT_W] * batch
    return filled * times_weights + outputs * big[0] + inputs * big[1] * times_in  # type: ignore[no-any-return]


@njit
def filling_by_kind(layer: IntArray, place: Layout, runs: int, cores: Cores, site_kind: IntArray) -> float:
    """Energy of filling and reading big buffers of several kinds of cores, pJ of a run; tiles are taken at once (rules M28, M124).

    Args:
        layer: Row of the table of layers.
        place: Where it is.
        runs: Over which stored weights are spread.
        cores: All kinds.
        site_kind: Kind of the core at each site.
    """
    weights = priced_words(place.weights, cores, site_kind, 1)
    inputs = priced_words(place.inputs, cores, site_kind, 1)
    outputs = priced_words(place.tiles, cores, site_kind, 0)
    if layer[layout.TYPE] == layout.ELTWISE:
        inputs *= layer[layout.OPERANDS]
    if layer[layout.BATCHED_WEIGHT] == 0:
        weights /= runs
    return weights + inputs + outputs
