"""Where the energy of a tree of segments is spent: compute, buffers, links, DRAM (rule M28)."""

from codesign.scheduling.segments.evaluate import PARTS, Evaluation, Evaluator

NAMES = {"big_buffer": "BUF", "small_buffers": "PE", "bus": "bus of a core", "mac": "MAC"}
"""Parts of a core by the level they belong to."""


def energy_parts_pj(evaluator: Evaluator, found: Evaluation) -> dict[str, float]:
    """Energy of the whole tree by part; serial links between dies draw power all the time, which is theirs."""
    system, row = evaluator.system, found.rows[0]
    parts = {NAMES[name]: value for name, value in zip(PARTS, row.parts_pj, strict=True)}
    parts["network"] = row.hops * system.links.pj_per_word_hop
    parts["DRAM"] = row.dram_words * system.memories.pj_per_word
    rest = row.energy_pj - sum(parts.values())
    parts["links between dies"] = rest if abs(rest) > 1e-9 * row.energy_pj else 0.0
    return parts
