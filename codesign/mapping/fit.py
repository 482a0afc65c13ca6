"""Whether an architecture can mean what it says for the computations it is given: names that levels keep, widths of operands."""

from collections.abc import Iterable

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError, closest
from codesign.workloads.computation import Computation, Role


def check_fit(architecture: Architecture, computations: Iterable[Computation]) -> None:
    """Refuse an architecture that was written for other computations than these.

    Args:
        architecture: The hardware.
        computations: Of one layer, or of every layer of a network.

    Raises:
        UserError: A level keeps a name that is neither a role nor a tensor of any of them, or the MACs are narrower than an
            operand.
    """
    found = list(computations)
    if not found:
        return
    _check_kept_names(architecture, found)
    for computation in found:
        _check_mac_width(architecture, computation)


def _check_kept_names(architecture: Architecture, computations: list[Computation]) -> None:
    """Every name in a level's `keep` is a role or a tensor."""
    roles = [role.value for role in Role]
    tensors = sorted({t.name for c in computations for t in c.tensors})
    for level in architecture.levels:
        for name in sorted(level.keep - {*roles, *tensors}):
            near = closest(name, [*tensors, *roles])
            meant = f"did you mean {near!r}? " if near else ""
            raise UserError(
                f"`keep` names {name!r}, which is neither a role ({', '.join(roles)}) nor a tensor of the problem "
                f"({', '.join(tensors)})",
                where=f"architecture {architecture.name!r}: level {level.name!r}",
                hint=f"{meant}leave it out if no such tensor is meant",
            )


def _check_mac_width(architecture: Architecture, computation: Computation) -> None:
    """The MACs take operands whole."""
    widest = max(computation.inputs, key=lambda t: t.bits)
    if widest.bits > architecture.mac.bits:
        raise UserError(
            f"the MACs take operands of {architecture.mac.bits} bits, {widest.name!r} of {computation.name or computation} "
            f"has {widest.bits}",
            where=f"architecture {architecture.name!r}: `mac`",
            hint=f"give `mac: {{bits: {widest.bits}}}`, or operands of {architecture.mac.bits} bits",
        )
