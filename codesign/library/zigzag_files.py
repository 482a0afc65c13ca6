"""A layer of ZigZag's files: accelerator, workload and mapping in any order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.core.goals import Objective
    from codesign.cost.zigzag.layer import UnrolledLayer
    from codesign.formats.documents import Document, Kind


def read_layer(files: Sequence[str], goal: "Objective") -> tuple["UnrolledLayer", bool]:
    """The layer that accelerator, workload and mapping files describe, and whether its unrolling had to be chosen.

    Raises:
        UserError: A file is malformed, one is missing, or one is not ZigZag's.
    """
    from codesign.cost.zigzag.accelerator import accelerator_from_zigzag
    from codesign.cost.zigzag.layer import UnrolledLayer, unrolling_of
    from codesign.formats.documents import Kind, read_all_documents
    from codesign.formats.zigzag.mapping import unrolling_from_zigzag
    from codesign.formats.zigzag.problem import computation_from_zigzag
    from codesign.mappers.loop_order.unrolling_choice import choose_unrolling

    documents = read_all_documents(files)
    hardware = _document(documents, Kind.ARCHITECTURE, "an accelerator file")
    problem = _document(documents, Kind.PROBLEM, "a workload file")
    if hardware is None or problem is None:
        missing = "an accelerator" if hardware is None else "a workload"
        raise UserError(
            f"no file describes {missing}",
            where=", ".join(files) or "no files given",
            hint="--semantics zigzag reads ZigZag's accelerator, workload and mapping files",
        )
    mapping = _document(documents, Kind.CONSTRAINTS, "a mapping file")
    accelerator = accelerator_from_zigzag(hardware.value, hardware.where)
    computation = computation_from_zigzag(problem.value, problem.where)
    if mapping is None:
        return choose_unrolling(computation, accelerator, goal), True
    spatial = unrolling_from_zigzag(mapping.value, computation, mapping.where, fractional=True)
    try:
        return UnrolledLayer(computation, accelerator, unrolling_of(spatial)), False
    except UserError as error:
        raise error.within(mapping.where) from None


def _document(documents: Sequence["Document"], kind: "Kind", what: str) -> "Document | None":
    from codesign.formats.documents import Dialect

    found = [d for d in documents if d.kind is kind]
    for document in found:
        if document.dialect is not Dialect.ZIGZAG:
            raise UserError(f"expected {what} in ZigZag's form", where=document.where)
    if len(found) > 1:
        raise UserError(f"two files are {what}; give one", where=f"{found[0].where}, {found[1].where}")
    return found[0] if found else None
