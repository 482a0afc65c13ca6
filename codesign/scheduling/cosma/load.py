"""Graphs from what people have: the zoo, ONNX, the project's own networks, the JSON form of `graph_from_dict`."""

from pathlib import Path
from typing import Any

from codesign.core.errors import UserError
from codesign.core.files import read_structured
from codesign.scheduling.cosma.fusion import fuse_operators
from codesign.scheduling.cosma.graph import GraphTensor, Operator, OperatorGraph, graph_from_dict
from codesign.workloads.load import load_network
from codesign.workloads.network import Network, OperatorKind


def from_network(network: Network) -> OperatorGraph:
    """The operators of a network with the bytes of their tensors; views (reshapes) move nothing and vanish.

    Raises:
        UserError: The network has no operators besides views, or an empty tensor.
    """
    alias: dict[str, str] = {}
    operators = [Operator(name, "input", (), (name,)) for name in network.inputs]
    taken = {o.name for o in operators}
    for node in network.operators:
        reads = tuple(dict.fromkeys(alias.get(t.name, t.name) for t in network.activation_inputs(node)))
        if node.kind is OperatorKind.RESHAPE and len(reads) == 1:
            alias.update(dict.fromkeys(node.outputs, reads[0]))
            continue
        name = node.name
        while name in taken:
            name += "_"
        taken.add(name)
        kind = "+".join((node.function or node.kind.value, *node.fused))
        parameters = sum(t.size_bytes for t in network.parameters(node))
        operators.append(Operator(name, kind, reads, node.outputs, parameters))
    made = [t for o in operators for t in o.outputs]
    sizes = network.tensor_by_name
    return OperatorGraph(
        name=network.name,
        operators=tuple(operators),
        tensors=tuple(GraphTensor(t, sizes[t].size_bytes, sizes[t].shape) for t in made),
        outputs=tuple(dict.fromkeys(alias.get(t, t) for t in network.outputs)),
    )


def load_graph(
    name_or_path: str | Path,
    *,
    fused: bool = True,
    bits: int = 8,
    batch: int | None = None,
    seq: int | None = None,
    phase: str | None = None,
) -> OperatorGraph:
    """The graph of a zoo network, an ONNX file, a saved `torch.export` program, or JSON (a graph with ``ops``, or a network).

    Args:
        name_or_path: A name of the zoo or a path.
        fused: Whether normalisation and activations run within the operator before them. A JSON graph is taken as
            it is.
        bits: Width of an element, where the file does not say bytes.
        batch: Inferences that run together.
        seq: Sequence length, for networks that have one.
        phase: ``prefill`` or ``decode``, for networks that have phases.

    Raises:
        UserError: Unknown name, unusable file, or an option that a JSON graph does not take.
    """
    path = Path(name_or_path)
    if path.suffix == ".pt2":
        from codesign.scheduling.cosma.torch_import import graph_from_exported_file

        _refuse_shapes(path, "a program that was exported for one shape", batch, seq, phase)
        return graph_from_exported_file(path, fused=fused, bits=bits)
    if path.suffix == ".json" and path.is_file():
        value = read_structured(path)
        if not isinstance(value, dict) or is_graph_document(value):
            _refuse_shapes(path, "a graph whose sizes are given in bytes", batch, seq, phase)
            if not fused:
                raise UserError(
                    "a graph file is fused or not as it was written", where=str(path), hint="leave out --unfused-graph"
                )
            return graph_from_dict(value, str(path))
    graph = from_network(load_network(name_or_path, batch=batch, seq=seq, phase=phase, bits=bits, fuse=False))
    return fuse_operators(graph) if fused else graph


def is_graph_document(value: Any) -> bool:
    """Whether a JSON value is meant as a graph of `graph_from_dict` rather than as a network."""
    return isinstance(value, dict) and ("ops" in value or ("tensors" in value and "operators" not in value))


def _refuse_shapes(path: Path, what: str, batch: int | None, seq: int | None, phase: str | None) -> None:
    for option, given in (("--batch", batch), ("--seq", seq), ("--phase", phase)):
        if given is not None:
            raise UserError(f"{option} does not apply to {what}", where=str(path))
