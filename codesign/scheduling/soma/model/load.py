"""Where a layer graph comes from: a JSON file, a GPT-2 block by name, the zoo, an ONNX file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.core.errors import UserError
from codesign.core.files import read_structured
from codesign.scheduling.soma.model.gpt2 import SIZES, gpt2_block
from codesign.scheduling.soma.model.layer_graph import LayerGraph, graph_from_json

# A randomly wired network (RandWire, small regime) is one drawn graph, so it is kept as a file: the graph SoMa's authors schedule.
RANDWIRE = "randwire-small"


@dataclass(frozen=True)
class Source:
    """A graph with what its file says about batch and hardware."""

    graph: LayerGraph
    batch: int = 1
    constants: Mapping[str, Any] | None = None


def load_graph(name: str, *, phase: str | None = None, seq: int | None = None, batch: int | None = None) -> Source:
    """The graph a user names.

    Args:
        name: ``gpt2-small`` or ``gpt2-xl`` (one transformer block), ``randwire-small``, a zoo name, or a path ending in ``.json`` (a layer
            graph or a network of this project) or ``.onnx``.
        phase: ``prefill`` or ``decode``, for language models.
        seq: Sequence length (decode: cached tokens).
        batch: Samples, where the file's own shapes depend on it.

    Raises:
        UserError: Nothing of that name, a file that cannot be used, an option that does not apply.
    """
    plain = name.lower().replace("_", "-")
    if plain in SIZES:
        return Source(gpt2_block(plain, phase or "prefill", seq))
    if plain == RANDWIRE:
        name = str(Path(__file__).parent / "networks" / f"{RANDWIRE}.json")
    if Path(name).suffix == ".json":
        raw = read_structured(name)
        body = raw.get("network", raw) if isinstance(raw, Mapping) else raw
        if isinstance(body, Mapping) and isinstance(body.get("layers"), list):
            if phase is not None or seq is not None:
                raise UserError("--phase and --seq do not apply to a graph with fixed shapes", where=name)
            config = raw.get("config") if isinstance(raw.get("config"), Mapping) else {}
            constants = raw.get("constants") if isinstance(raw.get("constants"), Mapping) else None
            return Source(graph_from_json(raw, Path(name).name), _batch_of(config, name), constants)
    from codesign.scheduling.soma.model.from_network import graph_from_network
    from codesign.workloads.load import load_network

    # the graph is that of one sample; a file that leaves its batch open is to say so when nobody gives one
    network = load_network(name, phase=phase, seq=seq, batch=None if batch is None else 1)
    if network.batch != 1:
        network = network.with_batch(1)
    return Source(graph_from_network(network), 1 if batch is None else batch)


def _batch_of(config: Any, name: str) -> int:
    value = config.get("batch", 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"`batch` must be an integer >= 1, got {value!r}", where=name)
    return value
