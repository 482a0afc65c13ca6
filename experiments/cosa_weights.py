"""Fit the weights of the CoSA program to an architecture with a micro-benchmark of small layers.

python -m experiments.cosa_weights --arch simba --objective edp --out weights.json
"""

import argparse
import json
from dataclasses import asdict, dataclass

from codesign.arch.architecture import Ports
from codesign.arch.presets import load_preset
from codesign.core.files import write_atomic
from codesign.core.goals import Objective
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.layer_string import parse_layer
from experiments.cosa_fit import fit_weights

LAYERS = (
    "conv K=64 C=64 P=14 Q=14 R=3 S=3",
    "conv K=128 C=64 P=14 Q=14 R=1 S=1",
    "conv K=64 C=16 P=28 Q=28 R=3 S=3 stride=2",
    "gemm M=64 N=128 K=256",
)
"""One layer of each kind: square window, point-wise, strided, matrix product."""


@dataclass(frozen=True)
class Config:
    """What to run.

    Args:
        arch: Preset.
        objective: energy, latency or edp.
        samples: Schedules drawn a layer.
        seed: Of the draws.
        smoke: Two layers, few samples.
    """

    arch: str = "simba"
    objective: str = "edp"
    samples: int = 24
    seed: int = 0
    smoke: bool = False


def run(config: Config) -> dict[str, object]:
    """The fitted weights with the configuration."""
    layers = LAYERS[1::2] if config.smoke else LAYERS
    machine = load_preset(config.arch).with_dram_ports(Ports.SEPARATE)  # as the paper's Timeloop counts (rule L2)
    problems = [MappingProblem(parse_layer(text), machine) for text in layers]
    samples = min(config.samples, 8) if config.smoke else config.samples
    fit = fit_weights(problems, Objective.parse(config.objective), samples=samples, seed=config.seed)
    return {
        "config": asdict(config),
        "layers": list(layers),
        "weights": {
            "utilization": fit.weights.utilization,
            "compute": fit.weights.compute,
            "traffic": fit.weights.traffic,
        },
        "samples": fit.samples,
        "r_squared": fit.r_squared,
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default=Config.arch)
    parser.add_argument("--objective", default=Config.objective)
    parser.add_argument("--samples", type=int, default=Config.samples)
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", help="JSON file for the result")
    arguments = parser.parse_args()
    result = run(Config(arguments.arch, arguments.objective, arguments.samples, arguments.seed, arguments.smoke))
    text = json.dumps(result, indent=1)
    if arguments.out:
        write_atomic(arguments.out, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
