"""One operator on a system of cores, launched by a framework or in a graph of kernels (rule G9)."""

from enum import Enum

from codesign.timing.cores.matmul import Product, product_time
from codesign.timing.cores.streams import Stream, StreamKind, stream_time
from codesign.timing.cores.system import CoreSystem
from codesign.timing.cores.whole_network import launched_s as in_graph_s

COMPILED = frozenset({StreamKind.LAYERNORM, StreamKind.GELU})
"""Operators that the recorded scripts compile: the host comes back from the compiler's wrapper while the kernel runs."""


class Launch(Enum):
    """How kernels are launched.

    EAGER: a framework calls each operator and waits for it, as the recorded measurements did.
    GRAPH: the kernels of a network follow each other without the host, as serving engines run them.
    """

    EAGER = "eager"
    GRAPH = "graph"


def product_s(system: CoreSystem, product: Product, launch: Launch = Launch.EAGER) -> float:
    """A matrix product with its launch."""
    return launched_s(system, product_time(system, product).seconds, None, launch)


def stream_s(system: CoreSystem, stream: Stream, launch: Launch = Launch.EAGER) -> float:
    """A vector operator with its launch."""
    return launched_s(system, stream_time(system, stream).seconds, stream.kind, launch)


def launched_s(system: CoreSystem, kernel_s: float, kind: StreamKind | None, launch: Launch) -> float:
    """A kernel with its launch; `kind` None is a matrix product (rule G9)."""
    if launch is Launch.GRAPH:
        return in_graph_s(system, kernel_s)
    if kind is StreamKind.COPY:
        kind = StreamKind.GELU  # the framework takes as long for any function of single elements
    name = "matmul" if kind is None else kind.value
    hidden = system.constant("hidden_s") if kind in COMPILED else 0.0
    return system.constant(f"dispatch_{name}_s") + max(hidden, system.constant("start_s") + kernel_s)
