"""Values as files of the project's own form or of Timeloop's, one text per file."""

import logging
from dataclasses import replace

from codesign.arch.architecture import Architecture
from codesign.arch.files import architecture_to_json
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.formats.documents import Dialect, dump_yaml
from codesign.formats.load import Inputs
from codesign.formats.timeloop.added_levels import Leveled, level_by_level
from codesign.formats.timeloop.architecture_writer import architecture_to_timeloop, area_table_of, energy_table_of
from codesign.formats.timeloop.mapping import constraints_to_timeloop, directives_of
from codesign.formats.timeloop.problem import computation_to_timeloop
from codesign.mapping.constraints import NO_CONSTRAINTS, Keep
from codesign.mapping.files import constraints_to_json, mapping_to_json
from codesign.workloads.files import computation_to_json

_log = logging.getLogger(__name__)


def to_files(inputs: Inputs, dialect: Dialect, *, allow_added: bool = True) -> dict[str, str]:
    """Text by file name: arch.yaml, problem.yaml, mapping.yaml, constraints.yaml, ert.yaml, art.yaml, as far as there is something to say.

    Args:
        inputs: What to write.
        dialect: `Dialect.OWN` or `Dialect.TIMELOOP`.
        allow_added: Whether Timeloop's architecture may have levels that keep nothing, which some mappings need
            (`codesign.formats.timeloop.added_levels`).

    Raises:
        UserError: Timeloop's form cannot express it, or needs the problem or the architecture too.
    """
    values = _own(inputs) if dialect is Dialect.OWN else _timeloop(inputs, allow_added)
    return {f"{name}.yaml": dump_yaml(value) for name, value in values.items()}


def _own(inputs: Inputs) -> JsonObject:
    values: JsonObject = {}
    if inputs.architecture is not None:
        values["arch"] = {"architecture": architecture_to_json(inputs.architecture)}
    if inputs.computation is not None:
        values["problem"] = {"problem": computation_to_json(inputs.computation)}
    if inputs.mapping is not None:
        values["mapping"] = {"mapping": mapping_to_json(inputs.mapping)}
    if inputs.constraints != NO_CONSTRAINTS:
        values["constraints"] = {"constraints": constraints_to_json(inputs.constraints)}
    return values


def _timeloop(inputs: Inputs, allow_added: bool) -> JsonObject:
    directives: list[dict[str, object]] | None = None
    if inputs.mapping is not None and inputs.architecture is not None and inputs.computation is not None:
        found = level_by_level(inputs.mapping, inputs.architecture, allow_added=allow_added)
        directives = directives_of(found.levels, inputs.computation)
        if found.added:
            _announce(found, inputs)
            inputs = replace(inputs, mapping=found.mapping, architecture=found.architecture)
    values: JsonObject = {}
    architecture, computation = inputs.architecture, inputs.computation
    if architecture is not None:
        bits = _element_bits(inputs, architecture)
        values["arch"] = {"architecture": architecture_to_timeloop(architecture, bits)}
        table = energy_table_of(architecture, bits)
        if table is not None:
            values["ert"] = {"ERT": table}
        areas = area_table_of(architecture)
        if areas is not None:
            values["art"] = {"ART": areas}
    if computation is not None:
        values["problem"] = {"problem": computation_to_timeloop(computation)}
    if directives is not None:
        values["mapping"] = {"mapping": directives}
    if architecture is not None and computation is not None:
        entries = constraints_to_timeloop(inputs.constraints, computation, architecture)
        values["constraints"] = {"mapspace_constraints": entries}
    return values


def _announce(found: Leveled, inputs: Inputs) -> None:
    """Say which levels were added.

    Raises:
        UserError: The loops of a level that was split are constrained.
    """
    before = inputs.need_architecture()
    for level in before.levels:
        entry = inputs.constraints.by_level.get(level.name)
        whole = level == found.architecture.level(level.name)
        if not whole and entry and (entry.temporal or entry.spatial or entry.order or entry.along_x is not None):
            raise UserError(
                f"the loops of level {level.name!r} are constrained, and its mapping needs an added level to say",
                where="constraints",
                hint="leave the constraints or the mapping out",
            )
    _log.warning(
        "architecture %r: added %s, which keeps nothing and costs nothing: a dimension lies along both axes, or has two loops at one level",
        before.name,
        ", ".join(f"level {name!r}" for name in found.added),
    )


def _element_bits(inputs: Inputs, architecture: Architecture) -> dict[str, int]:
    """Width of an element at each level: the widest of the tensors that are, or may be, kept there."""
    computation = inputs.computation
    result = {}
    for position, level in enumerate(architecture.levels):
        if level.one_element_per_word:
            result[level.name] = level.word_bits
            continue
        if computation is None:
            raise UserError(
                f"level {level.name!r} packs elements into words; Timeloop's form needs their width",
                where=f"architecture {architecture.name!r}",
                hint="give the problem too",
            )
        if inputs.mapping is not None:
            kept = [t for t in computation.tensors if level.name in inputs.mapping.levels_of(t.name)]
        else:
            decide = inputs.constraints.decision
            kept = [t for t in computation.tensors if decide(architecture, level.name, t) is not Keep.NO]
        widths = {t.bits if position == 0 else t.partial_bits for t in kept} or {level.word_bits}
        result[level.name] = max(widths)
        if len(widths) > 1:
            _log.warning(
                "level %r: elements of %s bits; Timeloop has one width per level, %d is written, so energy and space of the narrower grow",
                level.name,
                " and ".join(str(w) for w in sorted(widths)),
                max(widths),
            )
    return result
