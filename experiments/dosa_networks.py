"""The four workloads of DOSA (MICRO 2023) as networks: layer lists in `experiments/data/dosa_layers.json`, its source named there."""

import json
from pathlib import Path

from codesign.core.errors import unknown_name
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from spaces.dosa import SUM_BITS

LAYERS = Path(__file__).parent / "data" / "dosa_layers.json"


def dosa_network(name: str, path: Path = LAYERS) -> Network:
    """One of the workloads, every layer as often as it occurs, layers side by side: each reads and writes DRAM.

    Raises:
        UserError: There is none of that name.
    """
    networks = json.loads(path.read_text())["networks"]
    if name not in networks:
        raise unknown_name("workload", name, networks)
    net = NetworkBuilder(f"dosa-{name}", bits=8, partial_bits=SUM_BITS)
    outputs = []
    for number, (count, down, across, r, s, p, q, c, k, n) in enumerate(networks[name]):
        for turn in range(count):
            label = f"layer{number}_{turn}"
            source = net.input(f"x_{label}", (n, c, (p - 1) * down + r, (q - 1) * across + s))
            outputs.append(net.conv(source, k, (r, s), stride=(down, across), padding=0, name=label))
    return net.build(*outputs)
