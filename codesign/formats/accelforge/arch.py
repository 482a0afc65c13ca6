"""AccelForge's architectures as chains of memories, one for every operator and compute unit that may run it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from codesign.core.errors import UserError
from codesign.formats.accelforge.expressions import Action, Tensors, Worst, evaluate
from codesign.formats.accelforge.text import Node
from codesign.formats.accelforge.workload import Workload
from codesign.formats.documents import TAG
from codesign.mapping.looptree import Fanout, Machine, Memory

_KNOWN = {
    "name", "size", "tensors", "actions", "spatial", "total_latency", "leak_power", "area", "component_class", "enabled", "bits_per_value",
    "extra_attributes_for_component_model", "n_parallel_instances", "description",
}  # fmt: skip
_KNOWN_TENSORS = {"keep", "may_keep"}
_KNOWN_SPATIAL = {"name", "fanout", "reuse", "may_reuse", "min_usage"}


@dataclass(frozen=True)
class Costs:
    """Numbers of component models that stand outside the file.

    Args:
        actions: By component and action: `energy` in joules, `throughput` in actions per second, `bits_per_action`.
        leak_power: By component, watts of one instance.
        sizes: By component, bits.
        leak_w: Watts of everything, where only that is known.
    """

    actions: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    leak_power: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    leak_w: float | None = None


def machines(
    arch: Mapping[str, Any], workload: Workload, index: int, costs: Costs, unfused: bool = False
) -> list[Machine]:
    """The machines that may run operator `index`, one for each enabled compute unit.

    Args:
        arch: The parsed file's key `arch`.
        workload: All operators.
        index: Which of them.
        costs: Numbers from component models.
        unfused: The outermost memory keeps every tensor.

    Raises:
        UserError: Something in the file is not supported; the message names it.
    """
    roles = workload.roles[index]
    dims = {t.name: t.dims for t in workload.operators[index].operands}
    nodes = _flat(arch["nodes"])
    found = []
    for i, node in enumerate(nodes):
        if node[TAG] == "Compute" and _enabled(node, roles):
            before = [n for n in nodes[:i] if n[TAG] != "Compute" and _enabled(n, roles)]
            found.append(_machine(before, node, nodes, roles, dims, costs, unfused))
    if not found:
        raise UserError(f"no compute unit is enabled for operator '{workload.operators[index].name}'", where="arch")
    return found


def _flat(nodes: list[Any]) -> list[Node]:
    found: list[Node] = []
    for node in nodes:
        if not isinstance(node, dict) or TAG not in node:
            raise UserError("every node of an architecture has a tag (!Memory, !Container, !Compute)", where="arch")
        if node[TAG] in ("Hierarchical", "Array"):
            found += _flat(node["nodes"])
        elif node[TAG] in ("Memory", "Container", "Compute"):
            unknown = set(node) - _KNOWN - {TAG}
            if unknown:
                raise UserError(f"'{sorted(unknown)[0]}' is not supported", where=f"arch, node '{node.get('name')}'")
            found.append(node)
        else:
            raise UserError(f"node !{node[TAG]} is not supported", where="arch")
    return found


def _enabled(node: Node, roles: Mapping[str, Tensors]) -> bool:
    return bool(evaluate(node.get("enabled", True), roles, f"arch, '{node['name']}', enabled"))


def _fanouts(node: Node, roles: Mapping[str, Tensors], dims: Mapping[str, frozenset[str]]) -> tuple[Fanout, ...]:
    found = []
    everything = frozenset(d for of in dims.values() for d in of)
    for axis in node.get("spatial") or []:
        where = f"arch, '{node['name']}', spatial"
        unknown = set(axis) - _KNOWN_SPATIAL
        if unknown:
            raise UserError(f"'{sorted(unknown)[0]}' is not supported", where=where)
        reuse = evaluate(axis["reuse"], roles, where) if "reuse" in axis else None
        if "may_reuse" in axis:
            shared = evaluate(axis["may_reuse"], roles, where)
        else:
            shared = reuse if reuse is not None else roles["All"]
        barred = frozenset(d for t in (reuse.members if reuse is not None else ()) for d in dims[t])
        size = int(evaluate(axis["fanout"], roles, where))
        if size > 1:
            least = float(evaluate(axis.get("min_usage", 0), roles, where))
            found.append(Fanout(str(axis["name"]), size, everything - barred, shared.members, least))
    return tuple(found)


def _actions(node: Node, costs: Costs, roles: Mapping[str, Tensors]) -> dict[str, dict[str, float]]:
    name = str(node["name"])
    where = f"arch, '{name}', actions"
    wanted = ("compute",) if node[TAG] == "Compute" else ("read", "write")
    dummy = node.get("component_class") == "Dummy"
    given = {a["name"]: a for a in node.get("actions") or []}
    found = {}
    for action in wanted:
        model = costs.actions.get(name, {}).get(action, {})
        own = given.get(action, {})

        def number(key: str, default: float | None, own: Any = own, model: Any = model, action: str = action) -> float:
            value = own.get(key, model.get(key, default))
            if value is None or value == "None":
                raise UserError(
                    f"action '{action}' has no {key}", where=where, hint="give it in the file or as a component cost"
                )
            return float(evaluate(value, roles, where))

        found[action] = {
            "energy": number("energy", 0.0 if dummy else None),
            "throughput": number("throughput", math.inf),
            "bits": number("bits_per_action", 1.0) if node[TAG] == "Memory" else 1.0,
        }
    return found


def _latency(node: Node, actions: dict[str, dict[str, float]], roles: Mapping[str, Tensors]) -> Worst:
    text = node.get("total_latency", "sum(a.n_calls / a.throughput for a in actions)")
    items = [Action(name, a["throughput"]) for name, a in actions.items()]
    found = evaluate(text, {**roles, "actions": items}, f"arch, '{node['name']}', total_latency")
    return found if isinstance(found, Worst) else Worst(({},))


def _machine(
    before: list[Node],
    compute: Node,
    nodes: list[Node],
    roles: Mapping[str, Tensors],
    dims: Mapping[str, frozenset[str]],
    costs: Costs,
    unfused: bool,
) -> Machine:
    memories: list[Memory] = []
    fanouts: list[tuple[Fanout, ...]] = []
    waiting: tuple[Fanout, ...] = ()
    held: list[Node] = []
    for node in before:
        waiting += _fanouts(node, roles, dims)
        if node[TAG] == "Memory":
            memories.append(_memory(node, costs, roles))
            fanouts.append(waiting)
            held.append(node)
            waiting = ()
    fanouts.append(waiting + _fanouts(compute, roles, dims))
    if not memories:
        raise UserError("an architecture needs a memory", where="arch")
    actions = _actions(compute, costs, roles)
    seconds = max((form.get("compute", 0.0) for form in _latency(compute, actions, roles).forms), default=0.0)
    keeps = tuple(_keeps(held, dict(roles), unfused))
    return Machine(
        tuple(memories), tuple(fanouts), actions["compute"]["energy"], seconds, _leakage(nodes, roles, costs), keeps
    )


def _memory(node: Node, costs: Costs, roles: Mapping[str, Tensors]) -> Memory:
    name = str(node["name"])
    actions = _actions(node, costs, roles)
    size = float(evaluate(costs.sizes.get(name, node.get("size", math.inf)), roles, f"arch, '{name}', size"))
    ports = tuple(
        (form.get("read", 0.0) / actions["read"]["bits"], form.get("write", 0.0) / actions["write"]["bits"])
        for form in _latency(node, actions, roles).forms
    )
    widths: dict[str, float] = {}
    for key, value in (node.get("bits_per_value") or {}).items():
        where = f"arch, '{name}', bits_per_value"
        for tensor in evaluate(key, roles, where).members:
            widths[tensor] = float(evaluate(value, roles, where))
    read, write = (actions[a]["energy"] / actions[a]["bits"] for a in ("read", "write"))
    return Memory(name, size, read, write, ports, widths)


def _leakage(nodes: list[Node], roles: Mapping[str, Tensors], costs: Costs) -> float:
    if costs.leak_w is not None:
        return costs.leak_w
    total, instances = 0.0, 1
    for node in nodes:
        own = math.prod(int(evaluate(a["fanout"], roles, "arch")) for a in node.get("spatial") or [])
        if node[TAG] != "Compute":
            instances *= own
        if node[TAG] == "Container":
            continue
        count = instances * (own if node[TAG] == "Compute" else 1)
        leak = node.get("leak_power", costs.leak_power.get(str(node["name"]), 0.0))
        total += count * float(evaluate(leak, roles, f"arch, '{node['name']}', leak_power"))
    return total


def _keeps(held: list[Node], names: dict[str, object], unfused: bool) -> Iterator[tuple[frozenset[str], ...]]:
    """Sets of tensors level by level; expressions may name the levels outside."""
    everything = names["All"]
    assert isinstance(everything, Tensors)
    if not held:
        yield ()
        return
    node = held[0]
    tensors = node.get("tensors") or {}
    where = f"arch, '{node['name']}', tensors"
    unknown = set(tensors) - _KNOWN_TENSORS
    if unknown:
        raise UserError(f"'{sorted(unknown)[0]}' is not supported", where=where)
    must = evaluate("All" if unfused else tensors.get("keep", "Nothing"), names, where)
    may = evaluate(tensors.get("may_keep", "Nothing"), names, where) - must
    free = sorted(may.members)
    for bits in range(1 << len(free)):
        chosen = must | Tensors(
            frozenset(t for i, t in enumerate(free) if bits >> i & 1), everything.universe, everything.bits
        )
        inner = names | {str(node["name"]): chosen, "Above": names.get("Above", names["Nothing"]) | chosen}
        for rest in _keeps(held[1:], inner, False):
            yield (chosen.members, *rest)
