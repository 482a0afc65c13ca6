"""Graphs from what people have: the zoo, ONNX, the project's own networks, the JSON form of `graph_from_dict`."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from codesign.core.errors import UserError
from codesign.scheduling.cosma.fusion import fuse_operators
from codesign.scheduling.cosma.graph import GraphTensor, Operator, OperatorGraph, graph_from_dict
from codesign.workloads.fuse import remove_views
from codesign.workloads.graph_door import GraphForm, open_graph
from codesign.workloads.network import PHASES, Network, OperatorKind
from codesign.workloads.network import Operator as NetworkOperator
from codesign.workloads.traffic import Joins, TrafficRules, moved_elements


def from_network(network: Network) -> OperatorGraph:
    """The operators of a network with the bytes of their tensors.

    Views (reshapes) move nothing and vanish. So do a cache that grows and the phases of a transposed convolution: their readers
    read the parts, and of the cache only the new part is a result. A lookup reads the rows it needs.

    Raises:
        UserError: The network has no operators besides views, or an empty tensor.
    """
    parts: dict[str, tuple[str, ...]] = {}
    sizes = network.tensor_by_name

    def resolve(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part for name in names for part in parts.get(name, (name,))))

    operators = [Operator(name, "input", (), (name,)) for name in network.inputs]
    taken = {o.name for o in operators}
    results: dict[str, tuple[str, ...]] = {name: (name,) for name in network.outputs}
    for node in network.operators:
        reads = resolve(t.name for t in network.activation_inputs(node))
        joins = node.kind is OperatorKind.APPEND or node.function == PHASES
        if joins or (node.kind is OperatorKind.RESHAPE and len(reads) == 1):
            parts.update(dict.fromkeys(node.outputs, reads))
            if node.kind is OperatorKind.APPEND:
                results.update({name: resolve(node.inputs[-1:]) for name in node.outputs if name in results})
            continue
        name = node.name
        while name in taken:
            name += "_"
        taken.add(name)
        kind = "+".join((node.function or node.kind.value, *node.fused))
        weights = sum(sizes[n].size_bytes for n in set(node.operands[:-1]) if sizes[n].is_parameter)
        operators.append(Operator(name, kind, reads, node.outputs, _parameter_bytes(network, node), node.macs, weights))
    made = [t for o in operators for t in o.outputs]
    return OperatorGraph(
        name=network.name,
        operators=tuple(operators),
        tensors=tuple(GraphTensor(t, sizes[t].size_bytes, sizes[t].shape) for t in made),
        outputs=resolve(part for name in network.outputs for part in results[name]),
    )


def _parameter_bytes(network: Network, node: NetworkOperator) -> int:
    """Parameters an operator reads; a lookup reads as many elements of its table as it writes (rule W7)."""
    moved = moved_elements(network, node, COPIES)
    return sum(-(-min(t.elements, moved.get(t.name, t.elements)) * t.bits // 8) for t in network.parameters(node))


COPIES = TrafficRules(joins=Joins.COPY)
"""Rules under which every operator reads what it names."""


def load_graph(
    name_or_path: str | Path,
    *,
    fused: bool = True,
    bits: int = 8,
    batch: int | None = None,
    seq: int | None = None,
    past: int | None = None,
    phase: str | None = None,
    dims: Mapping[str, int] | None = None,
) -> OperatorGraph:
    """The graph of a zoo network, an ONNX file, a saved `torch.export` program, or JSON (a graph with ``ops``, or a network).

    Args:
        name_or_path: A name of the zoo or a path.
        fused: Whether normalisation and activations run within the operator before them (views vanish and
            functions written out are one either way a network is fused). A JSON graph is taken as it is.
        bits: Width of an element, where the file does not say bytes.
        batch: Inferences that run together.
        seq: Sequence length, for networks that have one.
        past: Tokens in the cache, for networks that have phases.
        phase: ``prefill`` or ``decode``, for networks that have phases.
        dims: Lengths of an ONNX file's free axes, by name.

    Raises:
        UserError: Unknown name, unusable file, or an option that a JSON graph does not take.
    """
    opened = open_graph(name_or_path, batch=batch, seq=seq, past=past, phase=phase, dims=dims, bits=bits, fuse=False)
    if isinstance(opened, Network):
        return graph_of(opened, fused=fused)
    if opened.form is GraphForm.LAYERS:
        raise opened.refuse("a scheduler of whole tensors", "--scheduler soma")
    if opened.form is GraphForm.EXPORTED:
        from codesign.scheduling.cosma.torch_import import graph_from_exported_file

        return graph_from_exported_file(Path(opened.path), fused=fused, bits=bits)
    if not fused:
        raise UserError(
            "a graph file is fused or not as it was written", where=opened.path, hint="leave out --unfused-graph"
        )
    return graph_from_dict(opened.value, opened.path)


def graph_of(network: Network | OperatorGraph, *, fused: bool) -> OperatorGraph:
    """A network as it was loaded, nothing fused yet, or what `load_graph` gave.

    Args:
        network: Either.
        fused: Whether normalisation and activations run within the operator before them, of networks.
    """
    if isinstance(network, OperatorGraph):
        return network
    return fuse_operators(from_network(remove_views(network))) if fused else from_network(network)
