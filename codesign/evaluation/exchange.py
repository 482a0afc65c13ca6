"""Values as Timeloop's files, read back before they are handed out: the same mapping must move the same words."""

from collections.abc import Mapping as MappingABC
from dataclasses import replace

from codesign.arch.architecture import AccessEnergy, Architecture, Links
from codesign.core.errors import CodesignError
from codesign.cost.cost import Cost, evaluate
from codesign.formats.convert import to_files
from codesign.formats.documents import Dialect, parse_yaml, recognise
from codesign.formats.load import Inputs, load_inputs


def timeloop_files(inputs: Inputs, *, allow_added: bool = True) -> dict[str, str]:
    """Text by file name in Timeloop's form; a mapping among it is read back and counted.

    Args:
        inputs: What to write.
        allow_added: Whether levels that keep nothing may be added, as some mappings need.

    Raises:
        UserError: That form cannot express it.
        CodesignError: What was written counts otherwise than what was given: a fault of this program.
    """
    texts = to_files(inputs, Dialect.TIMELOOP, allow_added=allow_added)
    if inputs.mapping is not None and inputs.architecture is not None and inputs.computation is not None:
        check_same_counts(inputs, texts)
    return texts


def check_same_counts(inputs: Inputs, texts: MappingABC[str, str]) -> None:
    """Evaluate the files and compare accesses and tiles of every level and tensor, and the cycles of computing.

    Capacities, bandwidths and energies are not compared: one Timeloop word is one element, so they are restated. Links are compared as
    multicast, which is all these files know.

    Raises:
        CodesignError: A count differs.
    """
    documents = [d for name, text in texts.items() for value in parse_yaml(text, name) for d in recognise(value, name)]
    again = load_inputs(documents)
    given, written = counts_of(inputs), counts_of(again)
    different = [key for key, count in given.items() if written.get(key) != count]
    if different:
        key = different[0]
        raise CodesignError(
            f"Timeloop's files count otherwise: {' of '.join(key)} is {written.get(key)}, expected {given[key]}"
        )


def counts_of(inputs: Inputs) -> dict[tuple[str, ...], int]:
    """Accesses and tile of every level and tensor, and the cycles of computing, whatever the sizes and energies of the levels."""
    bare = _bare(inputs.need_architecture())
    cost = evaluate(inputs.need_computation(), bare, inputs.need_mapping())
    assert isinstance(cost, Cost)  # nothing is too small for anything
    counts: dict[tuple[str, ...], int] = {("compute cycles",): cost.compute_cycles}
    for level in cost.levels:
        for tensor in level.tensors:
            for name in ("tile_words", "reads", "fills", "updates"):
                counts[name, tensor.tensor, level.level] = getattr(tensor, name)
    return counts


def _bare(architecture: Architecture) -> Architecture:
    """The machine with unbounded levels, free accesses and multicast links."""
    free = AccessEnergy(0.0, 0.0, 0.0)
    levels = tuple(
        replace(
            level,
            capacity_bytes=None,
            energy=free,
            read_bandwidth_words_per_cycle=None,
            write_bandwidth_words_per_cycle=None,
            keep=frozenset({"input", "weight", "output"}),
            fanout=replace(level.fanout, links=Links.MULTICAST, hop_pj_per_bit=0.0),
        )
        for level in architecture.levels
    )
    return replace(architecture, levels=levels, mac=replace(architecture.mac, energy_pj=0.0))
