"""The project's own problem file: the notation, the bounds, the widths.

```yaml
problem:
  name: res2
  notation: "O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]"
  bounds: {n: 1, k: 64, c: 64, p: 56, q: 56, r: 3, s: 3}
  bits: 8
  partial_bits: 24
  tensors: {W: {role: weight, bits: 4}}    # where one differs
```
"""

from dataclasses import replace
from typing import Any

from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields, describe
from codesign.core.json_types import JsonObject
from codesign.workloads.computation import Computation, Role, Tensor
from codesign.workloads.density import DENSE
from codesign.workloads.density_files import density_from_json


def computation_from_json(value: Any, where: str = "problem") -> Computation:
    """The computation of what stands under `problem:`; its dimensions are in the order of `bounds`.

    Args:
        value: Keys and values as read from the file.
        where: The file, for messages.

    Raises:
        UserError: A key is unknown or missing, or a value is of the wrong kind or out of range.
    """
    fields = Fields(value, f"{where}: problem")
    notation = fields.text("notation")
    name = fields.text("name", "")
    bits = fields.integer("bits", 8, least=1)
    partial_bits = fields.integer("partial_bits", None, least=1)
    bound_fields = fields.child("bounds")
    bounds = {dim: bound_fields.integer(dim, least=1) for dim in list(fields.raw("bounds"))}
    tensor_fields = fields.child("tensors")
    fields.finish()
    try:
        parsed = Computation.parse(notation, bounds, name=name, bits=bits, partial_bits=partial_bits)
        tensors = tuple(_override(t, tensor_fields) for t in parsed.tensors)
        for name in tensor_fields.rest():
            raise unknown_name("tensor", name, [t.name for t in parsed.tensors])
        made = replace(parsed, dims=tuple(bounds), bounds=tuple(bounds.values()), tensors=tensors)
        made.check_densities()
        return made
    except UserError as error:
        raise error.within(where) from None


def _override(tensor: Tensor, tensors: Fields) -> Tensor:
    if not tensors.has(tensor.name):
        return tensor
    fields = tensors.child(tensor.name)
    bits = fields.integer("bits", tensor.bits, least=1)
    partial_bits = fields.integer("partial_bits", max(bits, tensor.partial_bits) if tensor.is_output else bits, least=1)
    role = fields.choice("role", tensor.role)
    scale_bits = fields.number("scale_bits", tensor.scale_bits, least=0)
    density = tensor.density
    if fields.has("density"):
        density = density_from_json(fields.raw("density"), f"{fields.where}, `density`")
    fields.finish()
    if (role is Role.OUTPUT) != tensor.is_output:
        raise UserError(
            f"`role` of {tensor.name!r} must be {'output' if tensor.is_output else 'input or weight'}, got {describe(role.value)}",
            where=fields.where,
        )
    return replace(tensor, bits=bits, partial_bits=partial_bits, role=role, density=density, scale_bits=scale_bits)


def computation_to_json(computation: Computation) -> JsonObject:
    """What stands under `problem:`; `computation_from_json` gives an equal computation back."""
    output = computation.output
    value: JsonObject = {"name": computation.name} if computation.name else {}
    value |= {"notation": str(computation), "bounds": computation.sizes, "bits": output.bits}
    if output.partial_bits != output.bits:
        value["partial_bits"] = output.partial_bits
    default = Computation.parse(str(computation), computation.sizes, bits=output.bits, partial_bits=output.partial_bits)
    tensors: JsonObject = {}
    for tensor, plain in zip(computation.tensors, default.tensors, strict=True):
        changed: JsonObject = {}
        if tensor.role is not plain.role:
            changed["role"] = tensor.role.value
        if tensor.bits != plain.bits:
            changed["bits"] = tensor.bits
        if tensor.scale_bits:
            changed["scale_bits"] = tensor.scale_bits
        if tensor.density != DENSE:
            changed["density"] = tensor.density.to_json()
        if changed:
            tensors[tensor.name] = changed
    if tensors:
        value["tensors"] = tensors
    return value
