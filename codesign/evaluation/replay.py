"""A recorded design made again: its architecture, and its layers with their mappings and costs.

A study records designs, and for each the notation, bounds and mapping of every layer. The space that built a design gives
its architecture back; the cost kernel gives back every figure of a recorded mapping, also those the record leaves out.
"""

from codesign.arch.architecture import Architecture, Ports
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.core.point import Point
from codesign.cost.cost import Infeasible, evaluate
from codesign.evaluation.choices import Choices
from codesign.evaluation.design import DesignSpace, SpaceWithChoices, load_design_space, space_of_record
from codesign.evaluation.generated import with_ports
from codesign.evaluation.judges import chosen_networks, load_networks, options_of
from codesign.evaluation.network import EvaluationOptions, MappedLayer
from codesign.evaluation.records import ConfigRecord, DetailRecord
from codesign.evaluation.specification import BetweenLayers, WorkloadSpec
from codesign.mappers.protocol import Mapper
from codesign.mappers.registry import create as create_mapper
from codesign.mapping.files import mapping_from_json
from codesign.workloads.files import computation_from_json
from codesign.workloads.network_json import content_hash
from codesign.workloads.workload import Workload


def recorded_space(config: ConfigRecord, space: str | None = None) -> DesignSpace:
    """The space of a study.

    Args:
        config: Of the study.
        space: ``module:attribute`` of a space that is not registered by name.

    Raises:
        UserError: It cannot be found, or it is no longer the space that was searched.
    """
    name = space or config["space"]["name"]
    try:
        found = load_design_space(space) if space else space_of_record(config["space"])
    except UserError as error:
        hint = None if space else "give the study's own space as --space, a file or module:attribute"
        raise UserError(error.message, where=error.where, hint=hint or error.hint) from None
    if "choices" in config["space"]:
        if not isinstance(found, SpaceWithChoices):
            raise UserError(f"space {name!r} takes no precision, zeros or support for zeros, the study chose them")
        found = found.with_choices(Choices.from_json(config["space"]["choices"]))
    parameters = {p["name"] for p in config["space"]["space"]["parameters"]}
    if set(found.space.names) != parameters:
        raise UserError(
            f"space {name!r} has the parameters {', '.join(sorted(found.space.names))}, the study searched "
            f"{', '.join(sorted(parameters))}",
            hint="give the study's own space as --space module:attribute",
        )
    if "scheduler" in config["evaluation"]:
        return found  # whole networks read DRAM as one channel
    # studies that do not say were made when every level had a port each for reads and writes
    recorded = config["evaluation"]
    return with_ports(found, recorded.get("timing_table"), recorded.get("dram_ports", Ports.SEPARATE.value))


def replay_layers(space: DesignSpace, architecture: Architecture, detail: DetailRecord) -> tuple[MappedLayer, ...]:
    """The layers of a design's record, evaluated again.

    Args:
        space: Says how wide operands are where the record does not.
        architecture: Of the design.
        detail: The trial's record.

    Raises:
        UserError: A recorded mapping does not fit the architecture: the space or the cost model has changed since.
    """
    layers = []
    for entry in detail.get("layers", ()):
        widths = entry.get(
            "widths", {"bits": space.bits, "partial_bits": space.partial_bits}
        )  # former records have none
        problem = {"name": entry["name"], "notation": entry["notation"], "bounds": entry["bounds"], **widths}
        computation = computation_from_json(problem, f"layer {entry['name']!r}")
        mapping = mapping_from_json(entry["mapping"], f"layer {entry['name']!r}")
        cost = evaluate(computation, architecture, mapping)
        if isinstance(cost, Infeasible):
            raise UserError(f"the recorded mapping no longer fits: {cost}", where=f"layer {entry['name']!r}")
        layers.append(MappedLayer(entry["name"], entry["count"], computation, mapping, cost))
    return tuple(layers)


def recorded_workload(config: ConfigRecord, space: DesignSpace, point: Point | None = None) -> Workload:
    """The networks of a study, loaded again; at the precision and with the zeros that a design chose.

    Raises:
        UserError: A network cannot be loaded, or is no longer the one that was judged.
    """
    recorded = config["workload"]
    asked = WorkloadSpec(
        networks=tuple(recorded["networks"]),
        batch=recorded.get("batch"),
        seq=recorded.get("seq"),
        past=recorded.get("past"),
        phase=recorded.get("phase"),
        dims=recorded.get("dims"),
    )
    networks = load_networks(asked, space)
    for name, network, expected in zip(recorded["networks"], networks, recorded["hashes"], strict=True):
        if content_hash(network) != expected:
            raise UserError(f"network {name!r} is not the one the study judged: its contents have changed")
    choices = getattr(space, "choices", None)
    if choices is not None:
        networks = chosen_networks(asked, space, choices.of(point or {}))
    return Workload.of(networks, tuple(recorded["weights"]))


def recorded_mapper(config: ConfigRecord) -> Mapper:
    """The mapper of a study with its options."""
    options = {key: value for key, value in config["mapper"].items() if key != "name"}
    return create_mapper(str(config["mapper"]["name"]), **options)


def recorded_options(config: ConfigRecord) -> EvaluationOptions:
    """How a study's layers were mapped and its networks summed."""
    recorded = config["evaluation"]
    between = BetweenLayers(recorded["activations"], recorded["activation_bytes"], recorded["resident_weights"])
    budget = Budget(recorded["time_limit_s"], recorded["evaluations"])
    return options_of(Objective.parse(recorded["objective"]), budget, config["seed"], between)
