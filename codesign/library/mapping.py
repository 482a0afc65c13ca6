"""`map_layer`, `map_network`, `evaluate`: what runs on an accelerator, how well, and with what proof."""

from collections.abc import Mapping as MappingABC
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible
from codesign.cost.cost import evaluate as evaluate_mapping
from codesign.evaluation.network import ConstraintsOf, Progress
from codesign.evaluation.whole_network import LayerKey, evaluate_network
from codesign.evaluation.whole_network import map_network as map_every_layer
from codesign.library.inputs import as_computation, as_hardware, as_mapping, as_network, is_layer
from codesign.library.map_options import DEFAULT_OPTIONS, MapOptions
from codesign.library.mapped import MappedLayer, MappedNetwork
from codesign.mappers.protocol import Mapper, MapResult
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.mapping.fit import check_fit
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation
from codesign.workloads.network import Network


def map_layer(
    layer: Computation | str | Path, architecture: Architecture | str | Path, options: MapOptions = DEFAULT_OPTIONS
) -> MappedLayer:
    """The best mapping of one layer on one accelerator.

    Args:
        layer: A computation, a text such as ``conv K=64 C=64 P=56 Q=56 R=3 S=3``, or a problem file.
        architecture: A value, the name of a preset, or a file.
        options: How to search.

    Returns:
        The mapping, its cost and its proof; or why there is none.

    Raises:
        UserError: An input cannot be used; the message says which and how to mend it.

    >>> found = map_layer("gemm M=16 N=16 K=16", "eyeriss")
    >>> found.proof.value, found.cost.macs
    ('optimal', 4096)
    """
    computation = as_computation(layer)
    hardware, machine = as_hardware(architecture)
    if hardware is not None:
        hardware = hardware.with_free_bypass() if options.free_bypass else hardware
        constraints = _both(hardware.constraints_of(computation), options.constraints)
    else:
        constraints = options.constraints or Constraints()
    check_fit(machine, [computation])
    return map_problem(MappingProblem(computation, machine, _freed(constraints, options), options.imperfect), options)


def map_problem(problem: MappingProblem, options: MapOptions) -> MappedLayer:
    """The best mapping of one layer with the constraints on it."""
    result = options.searcher(problem.architecture).map(
        problem, options.goal, budget=options.budget, seed=options.seed, reuse=options.rule
    )
    return _timed(MappedLayer(problem.computation, problem.architecture, result, problem, options))


def evaluate_layer(
    computation: Computation, architecture: Architecture, mapping: Mapping, options: MapOptions
) -> MappedLayer:
    """What one layer costs with a mapping that is given."""
    cost = evaluate_mapping(computation, architecture, mapping, reuse=options.rule, imperfect=options.imperfect)
    if isinstance(cost, Infeasible):
        return MappedLayer(computation, architecture, MapResult(None, None, cost, 1, 0.0), options=options)
    return _timed(MappedLayer(computation, architecture, MapResult(mapping, cost, None, 1, 0.0), options=options))


def _timed(layer: MappedLayer) -> MappedLayer:
    """The layer with its mapping simulated, where that is asked for."""
    timing, found = layer.options.timing, layer.result
    if not timing.event or found.mapping is None:
        return layer
    run, seconds = timing.run(layer.mapped_computation, layer.architecture, found.mapping, layer.options.rule)
    if isinstance(run, Infeasible):
        return replace(layer, result=replace(found, mapping=None, cost=None, infeasible=run))
    return replace(layer, run=run, run_seconds=seconds)


def map_network(
    network: Network | str | Path,
    architecture: Architecture | str | Path,
    options: MapOptions = DEFAULT_OPTIONS,
    *,
    batch: int | None = None,
) -> MappedNetwork:
    """Every distinct layer of a network on one accelerator, each with the best mapping that is found.

    Args:
        network: A value, a name of the zoo, or a file (ONNX, JSON, YAML).
        architecture: A value, the name of a preset, or a file.
        options: How to search.
        batch: Inferences that run together.

    Raises:
        UserError: An input cannot be used.
    """
    hardware, machine = as_hardware(architecture)
    loaded = as_network(network, machine, batch=batch)
    if hardware is not None and options.free_bypass:
        hardware = hardware.with_free_bypass()

    def constraints_of(computation: Computation) -> Constraints:
        given = Constraints() if hardware is None else hardware.constraints_of(computation)
        return _freed(_both(given, options.constraints), options)

    _refuse_for_network(options)
    return map_loaded(loaded, machine, options.network_searcher(machine), options, constraints_of)


def map_loaded(
    network: Network,
    architecture: Architecture,
    mapper: Mapper,
    options: MapOptions,
    constraints_of: ConstraintsOf,
    progress: Progress | None = None,
) -> MappedNetwork:
    """Every distinct layer of a network with the best mapping that a mapper finds."""
    found = map_every_layer(
        network, architecture, mapper, options.judged(), constraints_of=constraints_of, progress=progress
    )
    mapped = MappedNetwork(found, network, architecture, constraints_of=constraints_of, uneven=options.uneven)
    return _timed_network(mapped, options)


def evaluate_loaded(
    network: Network, architecture: Architecture, mappings: MappingABC[LayerKey, Mapping], options: MapOptions
) -> MappedNetwork:
    """What a network costs with mappings that are given, by layer."""
    judged = evaluate_network(network, architecture, mappings, options.judged())
    return _timed_network(MappedNetwork(judged, network, architecture), options)


def _refuse_for_network(options: MapOptions) -> None:
    """Refuse what is of one layer.

    Raises:
        UserError: Something is.
    """
    for name, given in {"trace": options.timing.trace is not None, "pad": options.pad}.items():
        if given:
            raise UserError(f"`{name}` is of one layer", hint="map_layer, or leave it out")


def _timed_network(network: MappedNetwork, options: MapOptions) -> MappedNetwork:
    """The network with every layer simulated, where that is asked for."""
    if isinstance(network.result, Infeasible):
        return network
    return replace(network, events=options.timing.of_network(network.result))


@overload
def evaluate(
    workload: Computation,
    architecture: Architecture | str | Path,
    mapping: Mapping | str | Path | None = None,
    options: MapOptions = DEFAULT_OPTIONS,
) -> MappedLayer: ...


@overload
def evaluate(
    workload: Network,
    architecture: Architecture | str | Path,
    mapping: MappingABC[LayerKey, Mapping] | str | Path | None = None,
    options: MapOptions = DEFAULT_OPTIONS,
) -> MappedNetwork: ...


@overload
def evaluate(
    workload: str | Path,
    architecture: Architecture | str | Path,
    mapping: Mapping | MappingABC[LayerKey, Mapping] | str | Path | None = None,
    options: MapOptions = DEFAULT_OPTIONS,
) -> Any: ...


def evaluate(
    workload: Computation | Network | str | Path,
    architecture: Architecture | str | Path,
    mapping: Mapping | MappingABC[LayerKey, Mapping] | str | Path | None = None,
    options: MapOptions = DEFAULT_OPTIONS,
) -> MappedLayer | MappedNetwork:
    """What a layer or a network costs on an accelerator, with mappings that are given or, without them, found.

    Args:
        workload: A layer (as for `map_layer`) or a network (as for `map_network`).
        architecture: A value, the name of a preset, or a file.
        mapping: Of a layer: a mapping or its file. Of a network: mappings by layer, or a folder of their files.
        options: How to search what is not given, and which reuse rule holds.

    Raises:
        UserError: An input cannot be used, or a mapping is malformed.

    >>> result = evaluate("alexnet", "eyeriss", options=MapOptions(mapper="anneal", evaluations=20))
    >>> result.feasible, len(result.rows())
    (True, 8)
    """
    single = is_layer(workload) or (mapping is not None and isinstance(mapping, Mapping))
    if single:
        assert not isinstance(workload, Network)
        if mapping is None:
            return map_layer(workload, architecture, options)
        computation, (_, machine) = as_computation(workload), as_hardware(architecture)
        assert isinstance(mapping, Mapping | str | Path)
        nest = as_mapping(mapping, computation, machine, options.imperfect)
        return evaluate_layer(computation, machine, nest, options)
    assert not isinstance(workload, Computation)
    if mapping is None:
        return map_network(workload, architecture, options)
    _, machine = as_hardware(architecture)
    network = as_network(workload, machine)
    if isinstance(mapping, str | Path):
        from codesign.evaluation.mapping_files import read_mappings

        mapping = read_mappings(Path(mapping), machine, options.imperfect)
    assert not isinstance(mapping, Mapping)
    _refuse_for_network(options)
    return evaluate_loaded(network, machine, mapping, options)


def _both(given: Constraints, more: Constraints | None) -> Constraints:
    from codesign.formats.load import merge_constraints

    return given if more is None else merge_constraints(given, more)


def _freed(constraints: Constraints, options: MapOptions) -> Constraints:
    return replace(constraints, free_bypass=True) if options.free_bypass else constraints
