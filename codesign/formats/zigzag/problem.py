"""ZigZag's workload files: one layer with its equation, loop sizes and operand precisions."""

import logging
import re
from dataclasses import replace
from typing import Any

from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields, describe
from codesign.workloads.computation import Computation

_log = logging.getLogger(__name__)


def computation_from_zigzag(value: Any, where: str = "workload") -> Computation:
    """The computation of a file with one layer; dimensions are in capitals as under `loop_dims`.

    Raises:
        UserError: The file holds several layers, or the layer is malformed.
    """
    if not isinstance(value, list) or len(value) != 1:
        raise UserError(
            f"expected one layer, got {describe(value)}", where=where, hint="put the layer into a file of its own"
        )
    fields = Fields(value[0], f"{where}: layer")
    for key in ("id", "operator_type", "operand_source", "constant_operands", "core_allocation", "type"):
        fields.has(key)
    name = fields.text("name", "")
    equation = fields.text("equation")
    relations = [str(r) for r in fields.items("dimension_relations", [])]
    dims = [d.upper() for d in fields.names("loop_dims")]
    sizes = fields.items("loop_sizes")
    precision = fields.child("operand_precision")
    widths = {key: precision.integer(key, least=1) for key in list(precision.rest())}
    if fields.has("padding") or fields.has("pr_loop_dims") or fields.has("pr_loop_sizes"):
        _log.warning("%s: padding is counted as input elements", where)
    fields.finish()
    if len(dims) != len(sizes):
        raise UserError(f"{len(dims)} loop dimensions but {len(sizes)} sizes", where=where)
    try:
        notation = _notation(equation, relations)
        bounds = dict(zip(dims, sizes, strict=True))
        parsed = Computation.parse(notation, bounds, name=name)
        # dimensions stay in the file's order: that program breaks ties by it
        return _with_widths(replace(parsed, dims=tuple(bounds), bounds=tuple(bounds.values())), widths)
    except UserError as error:
        raise error.within(where) from None


def _notation(equation: str, relations: list[str]) -> str:
    """``O[b][k] += W[k][c] * I[b][ix]`` with ``ix = 1*ox + 1*fx`` put in, in the project's notation."""
    known = {}
    for relation in relations:
        left, equals, right = relation.partition("=")
        if not equals or re.search(r"[^\w\s+*]", right):
            raise UserError(f"a dimension relation must be like ix=1*ox+1*fx, got {relation!r}")
        terms = [re.sub(r"\b1\s*\*\s*", "", t.strip()) for t in right.split("+")]
        known[left.strip()] = "+".join(terms)
    compact = re.sub(r"\s+", "", equation)

    def axes(match: re.Match[str]) -> str:
        names = re.findall(r"\[(\w+)\]", match[2])
        return f"{match[1]}[{','.join(known.get(n, n).upper() for n in names)}]"

    return re.sub(r"(\w+)((?:\[\w+\])+)", axes, compact)


def _with_widths(computation: Computation, widths: dict[str, int]) -> Computation:
    """Widths by operand; `O_final` is the output's, `O` that of its partial sums."""
    names = [t.name for t in computation.tensors]
    output = computation.output.name
    for key in widths:
        if key not in names and key != f"{output}_final":
            raise unknown_name("operand", key, names)
    tensors = []
    for tensor in computation.tensors:
        bits = widths.get(tensor.name, tensor.bits)
        final = widths.get(f"{output}_final", bits) if tensor.is_output else bits
        tensors.append(replace(tensor, bits=min(bits, final), partial_bits=bits if tensor.is_output else final))
    return replace(computation, tensors=tuple(tensors))
