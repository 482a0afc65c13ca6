"""Whether a mapping is one of a computation on an architecture: structure first, sizes elsewhere.

A mapping that breaks these rules is malformed (a user's mistake). One that keeps them but whose tiles
do not fit a buffer is infeasible, which is a result: `codesign.cost.evaluate` reports it.
"""

import math

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError, unknown_name
from codesign.mapping.layout import check_layouts
from codesign.mapping.mapping import Mapping, Spatial, Storage
from codesign.workloads.computation import Computation


def check_mapping(
    computation: Computation, architecture: Architecture, mapping: Mapping, *, imperfect: bool = False
) -> None:
    """Check the structural rules M1-M6 of docs/reference/cost-model.md.

    Args:
        computation: The operator.
        architecture: The hardware.
        mapping: The nest.
        imperfect: Whether the last iteration of a loop may be shorter: rule I1 instead of M1.

    Raises:
        UserError: The first rule broken, naming dimension, level or tensor.
    """
    _check_names(computation, architecture, mapping)
    for dim, bound in computation.sizes.items():
        product = mapping.iterations(dim)
        if product != bound and not imperfect:
            hint = "an imperfect mapping needs --imperfect" if product > bound else None
            raise UserError(
                f"factors of dimension {dim!r} must multiply to its bound {bound}, got {product}",
                where="mapping",
                hint=hint,
            )
        if product != bound:
            _check_cover(mapping, dim, bound, product)
    check_layouts(computation, mapping.layouts)
    _check_mesh(architecture, mapping)
    _check_order(computation, architecture, mapping)


def _check_cover(mapping: Mapping, dim: str, bound: int, product: int) -> None:
    """The loops cover the bound, and the outermost one has no iteration without work (rule I1)."""
    if product < bound:
        raise UserError(
            f"factors of dimension {dim!r} must multiply to its bound {bound} or more, got {product}", where="mapping"
        )
    outermost = next(n.factor for n in mapping.loops if n.dim == dim)
    needed = -(-bound // (product // outermost))
    if outermost != needed or needed == 1:
        raise UserError(
            f"the outermost loop over {dim!r} must have ceil({bound} / {product // outermost}) = {needed} iterations"
            f"{' and may then not stand at all' if needed == 1 else ''}, got {outermost}",
            where="mapping",
        )


def _check_names(computation: Computation, architecture: Architecture, mapping: Mapping) -> None:
    tensors = {t.name for t in computation.tensors}
    for node in mapping.nodes:
        if isinstance(node, Storage):
            if node.tensor not in tensors:
                raise unknown_name("tensor", node.tensor, tensors, where=f"mapping, level {node.level!r}")
        elif node.dim not in computation.sizes:
            raise unknown_name("dimension", node.dim, computation.dims, where="mapping")
        if isinstance(node, (Storage, Spatial)) and node.level not in architecture.level_index:
            raise unknown_name("level", node.level, architecture.level_index, where="mapping")
        if isinstance(node, Storage) and architecture.level_index[node.level] > 0:
            keep, tensor = architecture.level(node.level).keep, computation.tensor(node.tensor)
            if tensor.name not in keep and tensor.role.value not in keep:
                raise UserError(
                    f"level {node.level!r} may keep {', '.join(sorted(keep))}, not {tensor.name!r} ({tensor.role.value})",
                    where="mapping",
                )


def _check_mesh(architecture: Architecture, mapping: Mapping) -> None:
    for level in architecture.levels:
        for axis, limit in (("x", level.fanout.x), ("y", level.fanout.y)):
            used = math.prod(
                n.factor for n in mapping.loops if isinstance(n, Spatial) and n.level == level.name and n.axis == axis
            )
            if used > limit:
                raise UserError(
                    f"spatial loops along {axis} need {used} children, the fan-out has {limit}",
                    where=f"mapping, level {level.name!r}",
                )


def _check_order(computation: Computation, architecture: Architecture, mapping: Mapping) -> None:
    index = architecture.level_index
    reached = 0  # outermost level that a storage node may still belong to
    last: dict[str, int] = {}
    previous: Spatial | None = None
    for node in mapping.nodes:
        if isinstance(node, Spatial):
            here = index[node.level]
            if here < reached and not (previous is not None and previous.level == node.level):
                raise UserError(
                    f"spatial loop over {node.dim!r} of level {node.level!r} stands inside a node of an inner level; "
                    "spatial loops of one level stand together, levels from outer to inner",
                    where="mapping",
                )
            reached = here + 1
            previous = node
            continue
        previous = None
        if isinstance(node, Storage):
            here = index[node.level]
            if here < reached:
                raise UserError(
                    f"{node.tensor!r} is kept at {node.level!r} inside the fan-out of that level or of one further in",
                    where="mapping",
                    hint="storage of a level stands outside its spatial loops",
                )
            if here <= last.get(node.tensor, -1):
                raise UserError(
                    f"{node.tensor!r} is kept at {node.level!r} twice or after a level further in", where="mapping"
                )
            last[node.tensor] = here
    for tensor in computation.tensors:
        if tensor.name not in last:
            raise UserError(
                f"tensor {tensor.name!r} is kept nowhere",
                where="mapping",
                hint=f"keep it at least at {architecture.levels[0].name!r}",
            )
    _check_origin(architecture, mapping)


def _check_origin(architecture: Architecture, mapping: Mapping) -> None:
    """The outermost storage of every tensor holds all of it: no loop may stand outside."""
    outside = False
    seen: set[str] = set()
    for node in mapping.nodes:
        if not isinstance(node, Storage):
            outside = True
        elif node.tensor not in seen:
            seen.add(node.tensor)
            if outside:
                raise UserError(
                    f"loops stand outside the outermost storage of {node.tensor!r} ({node.level!r})",
                    where="mapping",
                    hint=f"keep {node.tensor!r} at {architecture.levels[0].name!r} too",
                )
