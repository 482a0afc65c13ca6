"""Recorded runs of AccelForge as this project's values: problem, machine, constraints, nest.

The machines stand in `tests/data/accelforge/inputs/ARCH.yaml`: architecture, constraints (`keep` and `bypass` may name roles), and
`fanouts`, which gives each fan-out the recorded container and the recorded names of its axes. An axis called `reuse_ROLE` only takes loops
that do not index the tensor of that role, as the recorded map spaces demand.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from codesign.arch.architecture import Architecture
from codesign.arch.files import architecture_from_json
from codesign.core.errors import UserError
from codesign.core.files import read_structured
from codesign.mapping.constraints import Constraints
from codesign.mapping.files import constraints_from_json, mapping_from_json
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation, Tensor
from codesign.workloads.files import computation_from_json, computation_to_json

INPUTS = Path(__file__).parents[1] / "tests" / "data" / "accelforge" / "inputs"
"""The machines; other folders of reference data hold recorded runs only."""

LOOPS = ("Temporal", "Spatial")


@dataclass(frozen=True)
class Case:
    """One recorded run and the same problem here.

    Args:
        name: As recorded: architecture, workload, objective.
        recorded: The file.
        computation: The operator.
        architecture: Without the charge of draining.
        constraints: What the recorded map space forbids.
        fanouts: By level: the recorded container of its fan-out (`component`) and the recorded names of `x` and `y`.
        nodes: The recorded nest, outermost node first.
    """

    name: str
    recorded: dict[str, Any]
    computation: Computation
    architecture: Architecture
    constraints: Constraints
    fanouts: dict[str, dict[str, str]]
    nodes: list[dict[str, Any]]

    @property
    def best(self) -> dict[str, Any]:
        """The recorded optimum."""
        found: dict[str, Any] = self.recorded["results"][0]
        return found

    @cached_property
    def held(self) -> list[dict[str, Any]]:
        """The nest with every storage node where its space is taken.

        A fetch may be planned outside a loop of which only one step is held at a time; a `Reservation` node then stands further in.
        """
        outermost = self.architecture.levels[0].name
        reserved = {(n["resource"], t) for n in self.nodes if n["type"] == "Reservation" for t in n["purposes"]}
        nodes: list[dict[str, Any]] = []
        for node in self.nodes:
            if node["type"] == "Reservation" and node["resource"] != outermost:
                nodes.append({"type": "Storage", "component": node["resource"], "tensors": node["purposes"]})
            elif node["type"] == "Storage":
                at_once = [t for t in node["tensors"] if (node["component"], t) not in reserved]
                tensors = node["tensors"] if node["component"] == outermost else at_once
                nodes.append({**node, "tensors": tensors})
            elif node["type"] in LOOPS:
                nodes.append(node)
        return [n for n in nodes if n.get("tensors", True)]


def read_case(path: Path) -> Case:
    """A recorded mapper run (`head/*.json`), with the architecture of its name."""
    recorded = read_structured(path)
    nodes = recorded["results"][0]["mapping"]["nodes"]
    return _case(recorded["case"], recorded, _problem(recorded, path), recorded["arch"], nodes)


def read_fixed(path: Path) -> Case:
    """A recorded cost of a given mapping (`model/*.json`)."""
    recorded = read_structured(path)
    nodes = []
    for node in _tagged(recorded["mapping_yaml"])["mapping"]["nodes"]:
        named = {"dim": node.get("name")} if node["type"] == "Spatial" else {}
        nodes.append({**node, **named})
    problem = _einsum(_tagged(recorded["workload_yaml"])["workload"])
    return _case(recorded["case"], recorded, problem, "model", _with_iterations(nodes, problem["bounds"]))


def read_cases(data: Path) -> list[Case]:
    """All recorded EDP runs of one operator whose architecture is there.

    Raises:
        UserError: There is none.
    """
    cases = []
    inside = data / "accelforge" / "head"
    for path in sorted((inside if inside.is_dir() else data).glob("*__edp*.json")):
        arch, workload, *_ = path.name.split("__")
        single = workload.startswith(("gemm", "conv"))
        if single and (INPUTS / f"{arch}.yaml").exists() and "imperf" not in path.name:
            cases.append(read_case(path))
    if not cases:
        raise UserError("no recorded runs of AccelForge", where=str(data), hint="see tests/data/README.md")
    return sorted(cases, key=lambda c: (c.computation.macs, c.name))


def elsewhere(cases: list[Case]) -> list[Case]:
    """The recorded convolutions on the machines they were not recorded on; nothing stands beside these."""
    machines = sorted({case.recorded["arch"] for case in cases})
    found: dict[str, Case] = {}
    for case in cases:
        if case.recorded["workload"].startswith("conv"):
            for machine in machines:
                name = "@".join([machine, *case.name.split("@")[1:]])
                found[name] = _case(name, {}, computation_to_json(case.computation), machine, [])
    return [case for name, case in found.items() if name not in {c.name for c in cases}]


def recorded_mapping(case: Case) -> Mapping:
    """The recorded nest as a mapping of this project."""
    level_of = {fanout["component"]: name for name, fanout in case.fanouts.items()}
    nodes: list[dict[str, Any]] = []
    for node in case.held:
        if node["type"] == "Storage":
            nodes.append({"store": node["component"], "tensors": node["tensors"]})
            continue
        factor = round(node["n_iterations"])
        if node["type"] == "Temporal":
            nodes.append({"for": node["rank_variable"], "factor": factor})
            continue
        level = level_of[node["component"]]
        axis = "y" if case.fanouts[level].get("y") == node["dim"] else "x"
        nodes.append({"parallel": node["rank_variable"], "factor": factor, "axis": axis, "level": level})
    return mapping_from_json(nodes, case.name)


def _case(
    name: str, recorded: dict[str, Any], problem: dict[str, Any], machine: str, nodes: list[dict[str, Any]]
) -> Case:
    computation = computation_from_json(problem, name)
    file = INPUTS / f"{machine}.yaml"
    documents = read_structured(file)
    architecture = architecture_from_json(documents["architecture"], str(file))
    fanouts = documents.get("fanouts", {})
    said = documents.get("constraints", {})
    constraints = constraints_from_json(_constraints(said, fanouts, computation), str(file))
    return Case(name, recorded, computation, architecture, constraints, fanouts, nodes)


def _constraints(said: dict[str, Any], fanouts: dict[str, dict[str, str]], computation: Computation) -> dict[str, Any]:
    """The constraints of a machine for one operator: roles become tensors, axes that share a tensor become forbidden loops."""
    by_role = {t.role.value: t for t in computation.tensors}
    levels: dict[str, dict[str, Any]] = {}
    for entry in said.get("levels", []):
        named = {key: [by_role[role].name for role in entry[key]] for key in ("keep", "bypass") if key in entry}
        levels[entry["level"]] = {**entry, **named}
    for name, fanout in fanouts.items():
        allowed = {axis: _allowed(fanout.get(axis, ""), by_role, computation) for axis in "xy"}
        if allowed["x"] is None or allowed["y"] is None:
            continue
        entry = levels.setdefault(name, {"level": name})
        entry["spatial"] = {d: 1 for d in computation.dims if d not in (*allowed["x"], *allowed["y"])}
        entry["along_x"] = allowed["x"]
    return {"free_bypass": said.get("free_bypass", False), "levels": list(levels.values())}


def _allowed(axis: str, by_role: dict[str, Tensor], computation: Computation) -> list[str] | None:
    """Dimensions that may lie along an axis of that recorded name; None if any may."""
    shared = by_role.get(axis.removeprefix("reuse_"))
    return None if shared is None else [d for d in computation.dims if d not in shared.dims]


def _problem(recorded: dict[str, Any], path: Path) -> dict[str, Any]:
    """A GEMM by its template parameters, a convolution by its einsum."""
    if recorded["workload"].startswith("gemm"):
        size = recorded["jinja_parse_data"]
        return {
            "notation": "T1[m,n1] += T0[m,n0] * W0[n0,n1]",
            "bounds": {"m": size["M"], "n0": size["KN"], "n1": size["KN"]},
            "tensors": {"T0": {"role": "input"}, "W0": {"role": "weight"}},
        }
    try:
        return _einsum(_tagged(recorded["workload_yaml"])["workload"])
    except (KeyError, yaml.YAMLError) as error:
        raise UserError(f"the workload cannot be read: {error}", where=str(path)) from None


def _einsum(workload: dict[str, Any]) -> dict[str, Any]:
    """The first operator of a workload as a problem of this project; rank names (`H: p + r`) are dropped."""
    einsum = workload["einsums"][0]
    ranges = einsum.get("iteration_space_shape") or workload["iteration_space_shape"]
    bounds = {}
    for text in ranges.values() if isinstance(ranges, dict) else ranges:
        low, dim, high = re.fullmatch(r"\s*(\d+)\s*<=\s*(\w+)\s*<\s*(\d+)\s*", text).groups()  # type: ignore[union-attr]
        bounds[dim] = int(high) - int(low)
    bounds |= {rank.lower(): size for rank, size in workload.get("rank_sizes", {}).items()}
    if "einsum" in einsum:
        notation = re.sub(r"\w+\s*:", "", einsum["einsum"]).replace("=", "+=", 1)
    else:
        accesses = {a["name"]: f"{a['name']}[{','.join(a['projection'])}]" for a in einsum["tensor_accesses"]}
        output = next(a["name"] for a in einsum["tensor_accesses"] if a.get("output"))
        notation = f"{accesses.pop(output)} += {' * '.join(accesses.values())}"
    names = einsum["renames"]
    return {
        "notation": notation,
        "bounds": bounds,
        "tensors": {names[role]: {"role": role} for role in ("input", "weight")},
    }


_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Reads `!Temporal {...}` as a mapping with its `type`."""


def _node(loader: Any, tag: str, node: yaml.Node) -> dict[str, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.YAMLError(f"expected a mapping under !{tag}")
    return {"type": tag} | {str(key): value for key, value in loader.construct_mapping(node, deep=True).items()}


_Loader.add_multi_constructor("!", _node)


def _tagged(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


def _with_iterations(nodes: list[dict[str, Any]], bounds: dict[str, int]) -> list[dict[str, Any]]:
    """Loops are given by the tile inside; the iterations are what is left of the tile outside."""
    left = dict(bounds)
    found = []
    for node in nodes:
        if node["type"] in LOOPS:
            dim, tile = node["rank_variable"], round(node["tile_shape"])
            found.append({**node, "n_iterations": left[dim] // tile})
            left[dim] = tile
        else:
            found.append(node)
    return found
