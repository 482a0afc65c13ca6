"""Timeloop's problem files (`problem: {shape: ..., ...bounds}`), read and written."""

from collections.abc import Mapping as MappingABC
from dataclasses import replace
from typing import Any

from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields, describe
from codesign.core.json_types import JsonObject
from codesign.formats.timeloop.sparse import density_from_timeloop, density_to_timeloop, with_densities
from codesign.workloads.computation import AffineIndex, Computation
from codesign.workloads.density import DENSE, Density

_CNN_LAYER: JsonObject = {
    "name": "CNN-Layer",
    "dimensions": list("RSPQCKN"),
    "coefficients": [{"name": f"{axis}{what}", "default": 1} for what in ("stride", "dilation") for axis in "WH"],
    "data-spaces": [
        {"name": "Weights", "projection": [[["C"]], [["K"]], [["R"]], [["S"]]]},
        {
            "name": "Inputs",
            "projection": [
                [["N"]],
                [["C"]],
                [["R", "Wdilation"], ["P", "Wstride"]],
                [["S", "Hdilation"], ["Q", "Hstride"]],
            ],
        },
        {"name": "Outputs", "projection": [[["N"]], [["K"]], [["Q"]], [["P"]]], "read-write": True},
    ],
}
"""The shape that Timeloop calls `cnn-layer`."""


def computation_from_timeloop(value: Any, where: str = "problem") -> Computation:
    """The computation of what stands under `problem:`.

    Args:
        value: Keys and values; bounds and coefficients stand beside `shape` or under `instance`.
        where: The file, for messages.

    Raises:
        UserError: Something is malformed or cannot be expressed.
    """
    problem = Fields(value, f"{where}: problem", loose=True)
    problem.raw("version", None)
    given = problem.raw("shape")
    if isinstance(given, str):
        if given.lower() not in ("cnn-layer", "cnn_layer"):
            raise unknown_name("shape", given, ["cnn-layer"], where=where)
        given = _CNN_LAYER
    shape = Fields(given, f"{where}: problem shape", loose=True)
    name = problem.text("name", None) or shape.text("name", "")
    shape.text("name", None)
    dims = shape.names("dimensions")
    coefficients = _coefficients(shape, where)
    spaces = shape.items(shape.first_of("data_spaces", "dataspaces"))
    shape.finish()
    instance = problem.child("instance") if problem.has("instance") else problem
    densities: dict[str, Density] = {}
    for fields in {id(f): f for f in (problem, instance)}.values():
        for key in ("commonDensity", "metadata_file"):
            if fields.has(key):
                raise UserError(f"`{key}` cannot be expressed", where=fields.where, hint="give `densities`")
        for tensor, value in fields.raw("densities", {}).items():
            densities[tensor] = density_from_timeloop(value, f"{fields.where}: density of {tensor!r}")
    bounds = {dim: instance.integer(dim, least=1) for dim in dims}
    values = {name: instance.integer(name, default, least=1) for name, default in coefficients.items()}
    instance.finish()
    problem.finish()
    made = _build(str(name), bounds, [_read_space(s, dims, values, where) for s in spaces], where)
    return with_densities(made, densities, where)


def _coefficients(shape: Fields, where: str) -> dict[str, int]:
    """Default value by coefficient name."""
    coefficients = {}
    for item in shape.items("coefficients", []):
        fields = Fields(item, f"{where}: coefficient")
        coefficients[fields.text("name")] = fields.integer("default", 1, least=1)
        fields.finish()
    return coefficients


def _read_space(
    item: Any, dims: list[str], coefficients: MappingABC[str, int], where: str
) -> tuple[str, tuple[AffineIndex, ...], bool]:
    """Name, axes and whether it is the output."""
    fields = Fields(item, f"{where}: data-space", loose=True)
    name = fields.text("name")
    fields.where = f"{where}: data-space {name!r}"
    axes = tuple(_read_axis(axis, dims, coefficients, fields.where) for axis in fields.items("projection"))
    is_output = fields.flag("read_write", False)
    fields.finish()
    return name, axes, is_output


def _read_axis(axis: Any, dims: list[str], coefficients: MappingABC[str, int], where: str) -> AffineIndex:
    terms: dict[str, int] = {}
    for product in axis if isinstance(axis, list) else [[axis]]:
        factors = product if isinstance(product, list) else [product]
        if not 1 <= len(factors) <= 2:
            raise UserError(f"a term must be [dimension] or [dimension, coefficient], got {factors!r}", where=where)
        dim = str(factors[0])
        if dim not in dims:
            raise unknown_name("dimension", dim, dims, where=where)
        if dim in terms:
            raise UserError(f"dimension {dim!r} stands twice in one index", where=where)
        terms[dim] = _coefficient(factors[1], coefficients, where) if len(factors) == 2 else 1
    if not terms:
        raise UserError(f"an axis must be a sum of dimensions, got {describe(axis)}", where=where)
    return AffineIndex(tuple(terms.items()))


def _coefficient(value: Any, coefficients: MappingABC[str, int], where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if str(value) not in coefficients:
        raise unknown_name("coefficient", str(value), coefficients, where=where)
    return coefficients[str(value)]


def _build(
    name: str, bounds: dict[str, int], spaces: list[tuple[str, tuple[AffineIndex, ...], bool]], where: str
) -> Computation:
    outputs = [s for s in spaces if s[2]]
    if len(outputs) != 1:
        raise UserError(f"needs one data-space with `read-write: true`, got {len(outputs)}", where=where)
    inputs = [s for s in spaces if not s[2]]
    text = [f"{tensor}[{','.join(str(a) for a in axes)}]" for tensor, axes, _ in (*outputs, *inputs)]
    try:
        parsed = Computation.parse(f"{text[0]} += {' * '.join(text[1:])}", bounds, name=name)
    except UserError as error:
        raise error.within(where) from None
    return replace(parsed, dims=tuple(bounds), bounds=tuple(bounds.values()))


def computation_to_timeloop(computation: Computation) -> JsonObject:
    """What stands under `problem:`; coefficients are named after their dimension (``Pstride`` ...).

    Timeloop's files have no widths and no roles: `computation_from_timeloop` gives those by default.
    """
    coefficients: dict[str, int] = {}
    spaces: list[JsonObject] = []
    for tensor in computation.tensors:
        projection = []
        for axis in tensor.axes:
            terms = []
            for dim, coefficient in axis.terms:
                if coefficient == 1:
                    terms.append([dim])
                    continue
                name = next(
                    (n for n, c in coefficients.items() if c == coefficient and n.startswith(f"{dim}_step")), None
                )
                if name is None:
                    name = f"{dim}_step{sum(n.startswith(f'{dim}_step') for n in coefficients) or ''}"
                    coefficients[name] = coefficient
                terms.append([dim, name])
            projection.append(terms)
        space: JsonObject = {"name": tensor.name, "projection": projection}
        spaces.append(space | ({"read-write": True} if tensor.is_output else {}))
    shape: JsonObject = {"name": computation.name or "problem", "dimensions": list(computation.dims)}
    if coefficients:
        shape["coefficients"] = [{"name": name, "default": 1} for name in coefficients]
    shape["data-spaces"] = spaces
    densities = {t.name: density_to_timeloop(t) for t in computation.tensors if t.density != DENSE}
    return {"shape": shape, **computation.sizes, **coefficients, **({"densities": densities} if densities else {})}
