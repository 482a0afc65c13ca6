"""Files in any order, of any known form, made into the values they describe."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codesign.arch.architecture import Architecture
from codesign.arch.files import architecture_from_json
from codesign.arch.presets import fill_figures
from codesign.core.errors import UserError
from codesign.formats.documents import Dialect, Document, Kind, read_all_documents
from codesign.formats.maestro.mapping import mapping_from_maestro
from codesign.formats.maestro.problem import computation_from_maestro
from codesign.formats.timeloop.architecture import architecture_from_timeloop, embedded_constraints, spatial_aliases
from codesign.formats.timeloop.energy_table import apply_area_table, apply_energy_table
from codesign.formats.timeloop.mapping import constraints_from_timeloop, mapping_from_timeloop
from codesign.formats.timeloop.problem import computation_from_timeloop
from codesign.formats.timeloop.sparse import with_sparse_optimizations
from codesign.formats.zigzag.architecture import architecture_from_zigzag
from codesign.formats.zigzag.mapping import constraints_from_zigzag
from codesign.formats.zigzag.problem import computation_from_zigzag
from codesign.mapping.constraints import Constraints, FactorRange, LevelConstraints
from codesign.mapping.files import constraints_from_json, mapping_from_json
from codesign.mapping.fit import check_fit
from codesign.mapping.mapping import Mapping
from codesign.mapping.validate import check_mapping
from codesign.workloads.computation import Computation
from codesign.workloads.files import computation_from_json

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Inputs:
    """What a set of files describes; None where they say nothing.

    Args:
        architecture: The hardware, with the energies of an energy table if one was among the files.
        computation: The operator.
        mapping: The loop nest, one of the computation on the architecture.
        constraints: All constraints together. Architectures in Timeloop's form leave undecided bypasses free.
        paths: The files.
    """

    architecture: Architecture | None
    computation: Computation | None
    mapping: Mapping | None
    constraints: Constraints
    paths: tuple[str, ...]

    def need_architecture(self) -> Architecture:
        """The architecture.

        Raises:
            UserError: No file describes one.
        """
        if self.architecture is None:
            raise self._lacks("an architecture", "give a file or a preset, e.g. --arch eyeriss")
        return self.architecture

    def need_computation(self) -> Computation:
        """The computation.

        Raises:
            UserError: No file describes one.
        """
        if self.computation is None:
            raise self._lacks("a problem", 'give a file or a layer, e.g. --layer "gemm M=128 N=768 K=768"')
        return self.computation

    def need_mapping(self) -> Mapping:
        """The mapping.

        Raises:
            UserError: No file describes one.
        """
        if self.mapping is None:
            raise self._lacks("a mapping", "give a file of `mapping`; `codesign map ... --out FILE` writes one")
        return self.mapping

    def _lacks(self, what: str, hint: str) -> UserError:
        return UserError(f"no file describes {what}", where=", ".join(self.paths) or "no files given", hint=hint)


def load_inputs(
    files: Sequence[str | Path | Document],
    *,
    architecture: Architecture | None = None,
    computation: Computation | None = None,
    clock_hz: float | None = None,
    technology: str | None = None,
    imperfect: bool = False,
) -> Inputs:
    """Read files in any order.

    Args:
        files: Each may hold several documents; or documents that were read before.
        architecture: One that does not come from a file, e.g. a preset.
        computation: One that does not come from a file.
        clock_hz: Overrides the clock of the architecture (Timeloop's files have none: 1 GHz).
        technology: Fills in energies and areas that neither the architecture nor an energy table gives; by default the one
            that the architecture names, if it does.
        imperfect: Whether the factors of a mapping may multiply to more than the bounds.

    Raises:
        UserError: A file is malformed, something is described twice, or names do not fit together.
    """
    paths = tuple(str(f) for f in files if not isinstance(f, Document))
    documents = [*read_all_documents(paths), *(f for f in files if isinstance(f, Document))]
    arch_document = _only(documents, Kind.ARCHITECTURE, architecture is not None)
    if arch_document is not None:
        architecture = read_architecture(arch_document)
    if architecture is not None:
        _check_machine_size(architecture)
        architecture = _complete(architecture, documents, clock_hz, technology)
    problem = _only(documents, Kind.PROBLEM, computation is not None)
    if problem is not None:
        computation = read_computation(problem)
    if computation is not None:
        _check_problem_size(computation)
    aliases = _aliases(arch_document)
    constraints = Constraints(free_bypass=arch_document is not None and arch_document.dialect is Dialect.TIMELOOP)
    mapping = None
    mapping_document = _only(documents, Kind.MAPPING, False)
    if architecture is not None and computation is not None:
        if arch_document is None or arch_document.dialect is Dialect.OWN:  # other tools' files say no widths
            check_fit(architecture, [computation])
        if mapping_document is not None:
            mapping = read_mapping(mapping_document, computation, architecture, aliases)
            try:
                check_mapping(computation, architecture, mapping, imperfect=imperfect)
            except UserError as error:
                raise error.within(mapping_document.where) from None
        constraints = _all_constraints(documents, arch_document, computation, architecture, aliases, constraints)
    else:
        if architecture is None:
            _warn_unread(documents, (Kind.CONSTRAINTS,), "an architecture")
        else:
            _warn_unread(documents, (Kind.CONSTRAINTS, Kind.MAPPING), "a problem")
    return Inputs(architecture, computation, mapping, constraints, paths)


@dataclass(frozen=True)
class Hardware:
    """What a set of files says of an accelerator, whatever runs on it.

    Args:
        architecture: With the energies of an energy table if one was among the files; None if no file describes one.
        constraints_of: The constraints on the mapping of a computation.
    """

    architecture: Architecture | None
    constraints_of: Callable[[Computation], Constraints]

    def with_free_bypass(self) -> "Hardware":
        """The same, levels that nothing is said about left free to be bypassed."""
        before = self.constraints_of
        return replace(self, constraints_of=lambda computation: replace(before(computation), free_bypass=True))


def load_hardware(
    paths: Sequence[str | Path],
    *,
    architecture: Architecture | None = None,
    clock_hz: float | None = None,
    technology: str | None = None,
) -> Hardware:
    """Read the files of an accelerator for a whole network: architecture, energy and area tables, constraints.

    Args:
        paths: The files, in any order.
        architecture: One that does not come from a file, e.g. a preset.
        clock_hz: Overrides its clock.
        technology: Fills in what the files leave open.

    Raises:
        UserError: A file is malformed, or describes a problem or a mapping, which are of one layer.
    """
    documents = read_all_documents(paths)
    for document in documents:
        if document.kind in (Kind.PROBLEM, Kind.MAPPING):
            raise UserError(
                f"a {document.kind.value} is of one layer; expected an architecture, constraints, an ERT or an ART",
                where=document.where,
                hint="leave it out: the network says the layers; `evaluate` takes a folder of mappings as --mappings",
            )
    arch_document = _only(documents, Kind.ARCHITECTURE, architecture is not None)
    if arch_document is not None:
        architecture = read_architecture(arch_document)
    if architecture is None:
        return Hardware(None, lambda _: Constraints())
    _check_machine_size(architecture)
    complete = _complete(architecture, documents, clock_hz, technology)
    aliases = _aliases(arch_document)
    base = Constraints(free_bypass=arch_document is not None and arch_document.dialect is Dialect.TIMELOOP)

    def constraints_of(computation: Computation) -> Constraints:
        return _all_constraints(documents, arch_document, computation, complete, aliases, base)

    return Hardware(complete, constraints_of)


def _warn_unread(documents: Iterable[Document], kinds: tuple[Kind, ...], missing: str) -> None:
    """Say that mappings and constraints, which speak of levels and dimensions, cannot be read without them."""
    for document in documents:
        if document.kind in kinds:
            _log.warning("%s: %s not read, since no file describes %s", document.where, document.kind.value, missing)


MAX_COUNT = 1 << 53
"""Largest count (MACs, elements, bits) that stays exact in every calculation."""

MAX_CHILDREN = 1 << 20
"""Largest fan-out of one instance; its children are enumerated."""


def _check_machine_size(architecture: Architecture) -> None:
    where = f"architecture {architecture.name!r}"
    for level in architecture.levels:
        if level.fanout.size > MAX_CHILDREN:
            raise UserError(
                f"a fan-out must have at most {MAX_CHILDREN} children, got {level.fanout.size} below level {level.name!r}",
                where=where,
            )
        for what, bits in (("capacity", level.capacity_bits or 0), ("word", level.word_bits)):
            if bits > MAX_COUNT:
                raise UserError(
                    f"{what} of level {level.name!r} must be at most 2**53 bits, got {bits:.3g}", where=where
                )
    if architecture.mac_units > MAX_COUNT:
        raise UserError(f"must have at most 2**53 MAC units, got {architecture.mac_units:.3g}", where=where)


def _check_problem_size(computation: Computation) -> None:
    where = computation.name or str(computation)
    if computation.macs > MAX_COUNT:
        raise UserError(f"must have at most 2**53 multiply-accumulates, got {computation.macs:.3g}", where=where)
    for tensor in computation.tensors:
        words = computation.tensor_words(tensor)
        steps = [coefficient for axis in tensor.axes for _, coefficient in axis.terms]
        if max(words, tensor.bits, tensor.partial_bits, words * tensor.partial_bits, *steps) > MAX_COUNT:
            raise UserError(
                f"tensor {tensor.name!r} is too large: elements, bits and steps of its indices must stay below 2**53",
                where=where,
            )


def _complete(
    architecture: Architecture, documents: Iterable[Document], clock_hz: float | None, technology: str | None
) -> Architecture:
    """The architecture with what stands beside it: tables of energies and areas, a clock, a technology."""
    if clock_hz is not None:
        architecture = replace(architecture, clock_hz=clock_hz)
    energies, areas = _only(documents, Kind.ENERGY, False), _only(documents, Kind.AREA, False)
    if energies is not None:
        architecture = apply_energy_table(architecture, energies.value, energies.where)
    if areas is not None:
        architecture = apply_area_table(architecture, areas.value, areas.where)
    sparsity = _only(documents, Kind.SPARSITY, False)
    if sparsity is not None:
        architecture = with_sparse_optimizations(architecture, sparsity.value, sparsity.where)
    if technology is not None or architecture.technology is not None:
        architecture = fill_figures(architecture, technology)
    return architecture


def _only(documents: Iterable[Document], kind: Kind, given: bool) -> Document | None:
    found = [d for d in documents if d.kind is kind]
    if given and found:
        raise UserError(f"the {kind.value} is given by a file and by name; give one", where=found[0].where)
    if len(found) > 1:
        raise UserError(f"two files describe the {kind.value}; give one", where=f"{found[0].where}, {found[1].where}")
    return found[0] if found else None


def read_architecture(document: Document) -> Architecture:
    """The architecture of a document.

    Raises:
        UserError: It is malformed.
    """
    if document.dialect is Dialect.OWN:
        return architecture_from_json(document.value, document.where, folder=Path(document.where).parent)
    if document.dialect is Dialect.ZIGZAG:
        return architecture_from_zigzag(document.value, document.where)
    return architecture_from_timeloop(document.value, document.where)


def read_computation(document: Document) -> Computation:
    """The computation of a document.

    Raises:
        UserError: It is malformed.
    """
    if document.dialect is Dialect.OWN:
        return computation_from_json(document.value, document.where)
    if document.dialect is Dialect.ZIGZAG:
        return computation_from_zigzag(document.value, document.where)
    if document.dialect is Dialect.MAESTRO:
        return computation_from_maestro(document.value, document.where)
    return computation_from_timeloop(document.value, document.where)


def read_mapping(
    document: Document, computation: Computation, architecture: Architecture, aliases: dict[str, str]
) -> Mapping:
    """The mapping of a document.

    Raises:
        UserError: It is malformed.
    """
    if document.dialect is Dialect.OWN:
        return mapping_from_json(document.value, document.where)
    if document.dialect is Dialect.MAESTRO:
        return mapping_from_maestro(document.value, computation, architecture, document.where)
    return mapping_from_timeloop(document.value, computation, architecture, document.where, aliases=aliases)


def _aliases(document: Document | None) -> dict[str, str]:
    if document is None or document.dialect is not Dialect.TIMELOOP:
        return {}
    return spatial_aliases(document.value, document.where)


def _all_constraints(
    documents: Iterable[Document],
    arch_document: Document | None,
    computation: Computation,
    architecture: Architecture,
    aliases: dict[str, str],
    constraints: Constraints,
) -> Constraints:
    if arch_document is not None and arch_document.dialect is Dialect.TIMELOOP:
        embedded = embedded_constraints(arch_document.value, arch_document.where)
        found = constraints_from_timeloop(embedded, computation, architecture, arch_document.where)
        constraints = merge_constraints(constraints, found)
    first = True
    for document in documents:
        if document.kind is not Kind.CONSTRAINTS:
            continue
        if document.dialect is Dialect.OWN:
            found = constraints_from_json(document.value, document.where)
            if first:  # an own file says itself whether undecided bypasses are free
                constraints = replace(constraints, free_bypass=found.free_bypass)
        elif document.dialect is Dialect.ZIGZAG:
            found = constraints_from_zigzag(document.value, computation, architecture, document.where)
        else:
            found = constraints_from_timeloop(
                document.value, computation, architecture, document.where, aliases=aliases
            )
        first = False
        try:
            constraints = merge_constraints(constraints, found)
            constraints.check(computation, architecture)
        except UserError as error:
            raise error.within(document.where) from None
    return constraints


def merge_constraints(a: Constraints, b: Constraints) -> Constraints:
    """Both at once; bypass is free where either leaves it free and none decides.

    Raises:
        UserError: They contradict each other.
    """
    levels = dict(a.by_level)
    for item in b.levels:
        levels[item.level] = _merge_level(levels[item.level], item) if item.level in levels else item
    least = max(a.min_utilization, b.min_utilization)
    return Constraints(tuple(levels.values()), a.free_bypass or b.free_bypass, least)


def _merge_level(a: LevelConstraints, b: LevelConstraints) -> LevelConstraints:
    where = f"constraints of level {a.level!r}"

    def factors(kind: str) -> tuple[tuple[str, int], ...]:
        merged = dict(getattr(a, kind))
        for dim, factor in getattr(b, kind):
            if merged.setdefault(dim, factor) != factor:
                raise UserError(f"{kind} factor of {dim!r} must be both {merged[dim]} and {factor}", where=where)
        return tuple(merged.items())

    shorter, order = sorted((a.order, b.order), key=len)
    if order[: len(shorter)] != shorter:
        raise UserError(f"loop orders {' '.join(a.order)} and {' '.join(b.order)} contradict each other", where=where)
    if a.along_x is not None and b.along_x is not None and a.along_x != b.along_x:
        raise UserError("two different sets of dimensions lie along X", where=where)
    return LevelConstraints(
        level=a.level,
        keep=a.keep | b.keep,
        bypass=a.bypass | b.bypass,
        temporal=factors("temporal"),
        spatial=factors("spatial"),
        order=order,
        along_x=a.along_x if a.along_x is not None else b.along_x,
        ranges=_merge_ranges(a, b),
    )


def _merge_ranges(a: LevelConstraints, b: LevelConstraints) -> tuple[FactorRange, ...]:
    """What lies in both ranges; none where the other gives an exact factor in the range."""
    merged: dict[tuple[str, bool], FactorRange] = {}
    for entry in (*a.ranges, *b.ranges):
        key = (entry.dim, entry.spatial)
        other = merged.get(key, entry)
        most = min((m for m in (entry.most, other.most) if m is not None), default=None)
        merged[key] = FactorRange(entry.dim, max(entry.least, other.least), most, entry.spatial)
    for spatial, pairs in ((False, (*a.temporal, *b.temporal)), (True, (*a.spatial, *b.spatial))):
        for dim, factor in pairs:
            found = merged.pop((dim, spatial), None)
            if found is not None and not found.least <= factor <= (factor if found.most is None else found.most):
                raise UserError(
                    f"factor {factor} of {dim!r} lies outside the range {found}",
                    where=f"constraints of level {a.level!r}",
                )
    return tuple(merged.values())
