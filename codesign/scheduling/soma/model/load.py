"""Where a layer graph comes from: a JSON file, a GPT-2 block by name, the zoo, an ONNX file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.core.checks import check_whole
from codesign.scheduling.soma.model.decoder_block import decoder_block
from codesign.scheduling.soma.model.from_network import graph_from_network
from codesign.scheduling.soma.model.layer_graph import LayerGraph, graph_from_json
from codesign.workloads.fuse import fuse
from codesign.workloads.graph_door import GraphForm, open_graph
from codesign.workloads.network import Network
from codesign.workloads.zoo import normalized, read_phase, zoo_entry
from codesign.workloads.zoo.transformers import GPT2

# A randomly wired network (RandWire, small regime) is one drawn graph, so it is kept as a file: the graph SoMa's authors schedule.
RANDWIRE = "randwire-small"

BLOCKS = {"gpt2_small_block": "small", "gpt2_xl_block": "xl"}
"""Zoo name of one block -> the size of GPT-2 whose block SoMa's authors schedule."""


@dataclass(frozen=True)
class Source:
    """A graph with what its file says about batch and hardware."""

    graph: LayerGraph
    batch: int = 1
    constants: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The name of the layer graph."""
        return self.graph.name


def load_graph(
    name: str,
    *,
    phase: str | None = None,
    seq: int | None = None,
    past: int | None = None,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
) -> Source:
    """The graph a user names.

    Args:
        name: A zoo name, ``randwire-small``, or a path ending in ``.json`` (a layer graph or a network of this project) or ``.onnx``.
            ``gpt2-small-block`` and ``gpt2-xl-block`` have the layers of the published graphs: keys made head by head.
        phase: ``prefill`` or ``decode``, for language models.
        seq: Sequence length (when decoding: tokens attended to, the new one included).
        past: Tokens in the cache.
        batch: Samples, where the file's own shapes depend on it.
        dims: Lengths of an ONNX file's free axes, by name.

    Raises:
        UserError: Nothing of that name, a file that cannot be used, an option that does not apply.
    """
    block = zoo_entry(name)
    if block is not None and block.name in BLOCKS and dims is None:
        read = read_phase(block, phase, seq, past)
        decoded = read.tokens == 1 and read.past
        if decoded or not read.past:
            size = BLOCKS[block.name]
            phase, length = ("decode", read.past) if decoded else ("prefill", read.tokens)
            graph = decoder_block(f"gpt2-{size}-block {phase} {length}", GPT2[size], read.tokens, read.past)
            return Source(graph, 1 if batch is None else batch)
    if normalized(name) == normalized(RANDWIRE):
        name = str(Path(__file__).parent / "networks" / f"{RANDWIRE}.json")
    opened = open_graph(name, phase=phase, seq=seq, past=past, batch=batch, dims=dims)
    if isinstance(opened, Network):
        return Source(graph_from_network(opened), opened.batch)
    if opened.form is not GraphForm.LAYERS:
        raise opened.refuse("a scheduler of layers", "--scheduler cosma")
    return _source_of(opened.value, name)


def source_of(network: Network | Source) -> Source:
    """A network as it was loaded, nothing fused yet, or what `load_graph` gave."""
    return network if isinstance(network, Source) else Source(graph_from_network(fuse(network)), network.batch)


def _source_of(raw: Mapping[str, Any], name: str) -> Source:
    config, constants = (raw.get(key) if isinstance(raw.get(key), Mapping) else None for key in ("config", "constants"))
    return Source(graph_from_json(raw, Path(name).name), _batch_of(config or {}, name), constants)


def _batch_of(config: Any, name: str) -> int:
    value: int = config.get("batch", 1)
    check_whole(batch=value, where=name)
    return value
