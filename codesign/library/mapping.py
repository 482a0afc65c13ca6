"""`map_layer`, `map_network`, `evaluate`: what runs on an accelerator, how well, and with what proof."""

from collections.abc import Mapping as MappingABC
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.evaluation.whole_network import LayerKey
from codesign.library.inputs import as_computation, as_hardware, as_mapping, as_network, is_layer
from codesign.library.map_options import DEFAULT_OPTIONS, MapOptions
from codesign.library.mapped_layer import MappedLayer, evaluate_layer, map_problem, timed
from codesign.library.mapped_network import MappedNetwork, evaluate_loaded, map_loaded
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
    problem = MappingProblem(computation, machine, _freed(constraints, options), options.imperfect)
    return timed(map_problem(problem, options))


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


def _refuse_for_network(options: MapOptions) -> None:
    """Refuse what is of one layer.

    Raises:
        UserError: Something is.
    """
    for name, given in {"trace": options.timing.trace is not None, "pad": options.pad}.items():
        if given:
            raise UserError(f"`{name}` is of one layer", hint="map_layer, or leave it out")


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
