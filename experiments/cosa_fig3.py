"""CoSA Figs. 3 and 4: what the loop order and the spatial mapping alone change: `python -m experiments.cosa_fig3`.

Q. Huang et al., ISCA 2021. Fig. 3: R = S = 3, P = Q = 8, C = 32, K = 1024, one tiling, the six orders of C, K and P at the global buffer (best 1.7
times faster than worst). Fig. 4: R = S = 1, P = Q = 16, C = 256, K = 1024, every way to put factors of P4 C4 K4 on 16 processing
elements, the rest in time at the global buffer (4.3 times). The paper gives neither tiling; those here are in `fig3_mapping` and
`fig4_mapping`. The architecture is Simba.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.cost.cost import Infeasible, evaluate
from codesign.mapping.mapping import Axis, LevelMapping, Mapping
from codesign.workloads.layer_string import parse_layer
from experiments.mappers_common import architecture, draw, save
from experiments.options import head_parser

FIG3_LAYER = "conv K=1024 C=32 P=8 Q=8 R=3 S=3"
FIG4_LAYER = "conv K=1024 C=256 P=16 Q=16 R=1 S=1"
SHARED = {"P": 4, "C": 4, "K": 4}
"""Fig. 4: what the processing elements and the global buffer's loops share out."""


@dataclass(frozen=True)
class Config:
    """Options of the run; both figures take less than a second.

    Args:
        seed: Recorded; nothing here is random.
        out: Folder of results.
    """

    seed: int = 0
    out: Path = Path("results/cosa_fig3")


def fig3_mapping(order: str) -> Mapping:
    """K16 over the elements, K8 C8 over lanes and MACs, Q R S inside; `order` of C4, K4, P8 at the global buffer, outermost first."""
    factors = {"C": 4, "K": 4, "P": 8}
    return Mapping.from_levels(
        (
            LevelMapping("DRAM", ("Inputs", "Weights", "Outputs"), (("K", 2),)),
            LevelMapping(
                "GlobalBuffer",
                ("Inputs", "Outputs"),
                tuple((d, factors[d]) for d in order),
                (("K", 4, "x"), ("K", 4, "y")),
            ),
            LevelMapping("InputBuffer", ("Inputs",), (), (("K", 8, "x"),)),
            LevelMapping("WeightBuffer", ("Weights",), (("R", 3), ("S", 3))),
            LevelMapping("AccumulationBuffer", ("Outputs",), (("Q", 8),), (("C", 8, "x"),)),
            LevelMapping("Registers", ("Weights",)),
        )
    )


def fig4_mapping(spatial: dict[str, int]) -> Mapping:
    """Factors of `SHARED` over the 4 x 4 elements, what is left in time at the global buffer, all else fixed."""
    room, placed = {"x": 4, "y": 4}, []
    for dim, factor in sorted(spatial.items(), key=lambda item: -item[1]):
        if factor > 1:
            axis: Axis = "x" if room["x"] >= factor else "y"
            room[axis] //= factor
            placed.append((dim, factor, axis))
    temporal = tuple((d, SHARED[d] // spatial[d]) for d in ("P", "C", "K"))
    return Mapping.from_levels(
        (
            LevelMapping("DRAM", ("Inputs", "Weights", "Outputs"), (("K", 32),)),
            LevelMapping("GlobalBuffer", ("Inputs", "Outputs"), temporal, tuple(placed)),
            LevelMapping("InputBuffer", ("Inputs",), (), (("K", 8, "x"),)),
            LevelMapping("WeightBuffer", ("Weights",), (("C", 8),)),
            LevelMapping("AccumulationBuffer", ("Outputs",), (("P", 4), ("Q", 16)), (("C", 8, "x"),)),
            LevelMapping("Registers", ("Weights",)),
        )
    )


def spatial_choices() -> list[dict[str, int]]:
    """All splits of `SHARED` that use 16 elements."""
    found = itertools.product((1, 2, 4), repeat=3)
    return [dict(zip(("P", "C", "K"), f, strict=True)) for f in found if f[0] * f[1] * f[2] == 16]


def score(layer: str, mapping: Mapping) -> dict[str, float]:
    """Cycles and energy of a mapping.

    Raises:
        RuntimeError: It does not fit; the mappings here do on the preset.
    """
    cost = evaluate(parse_layer(layer), architecture("simba"), mapping)
    if isinstance(cost, Infeasible):
        raise RuntimeError(f"the mapping does not fit: {cost}")
    return {"latency_cycles": cost.latency_cycles, "energy_pj": cost.energy_pj}


def main(config: Config) -> dict[str, Any]:
    """Score all mappings, write results and the figure."""
    fig3 = {"".join(order): score(FIG3_LAYER, fig3_mapping("".join(order))) for order in itertools.permutations("CKP")}
    fig4 = {}
    for spatial in spatial_choices():
        text = "s:" + "".join(f"{d}{f}" for d, f in spatial.items() if f > 1)
        rest = "".join(f"{d}{SHARED[d] // f}" for d, f in spatial.items() if f < SHARED[d])
        fig4[f"{text},t:{rest}"] = score(FIG4_LAYER, fig4_mapping(spatial))
    result: dict[str, Any] = {"fig3": fig3, "fig4": fig4}
    for name, bars in (("fig3", fig3), ("fig4", fig4)):
        cycles = [b["latency_cycles"] for b in bars.values()]
        energy = [b["energy_pj"] for b in bars.values()]
        result[f"{name}_slowest_over_fastest"] = max(cycles) / min(cycles)
        result[f"{name}_most_over_least_energy"] = max(energy) / min(energy)
    save(config.out, config, result)

    def paint(axes: Any) -> None:
        for axis, bars, title in zip(axes, (fig3, fig4), ("loop order", "spatial mapping"), strict=True):
            ranked = sorted(bars.items(), key=lambda item: -item[1]["latency_cycles"])
            axis.bar(range(len(ranked)), [b["latency_cycles"] for _, b in ranked], color="#1f6feb")
            axis.set_xticks(range(len(ranked)), [n for n, _ in ranked], rotation=50, ha="right")
            axis.set_title(title)
            axis.set_ylabel("cycles")

    draw(config.out / "figure.svg", 2, paint)
    for name, bars in (("Fig. 3", fig3), ("Fig. 4", fig4)):
        for label, bar in sorted(bars.items(), key=lambda item: -item[1]["latency_cycles"]):
            print(f"{name}  {label:<20} {bar['latency_cycles']:>9,} cycles {bar['energy_pj'] / 1e6:>8.1f} uJ")
    return result


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="the same: the whole run is small")
    given = parser.parse_args(arguments)
    return Config(given.seed, given.out)


if __name__ == "__main__":
    main(parse_args())
