"""SALSA Figs. 3 and 6: search time and energy over the limit on loops: `python -m experiments.salsa_fig3`.

    python -m experiments.salsa_fig3 --network mobilenet_v2 --layer 3       # Fig. 6

Jung et al., AICAS 2023. LOMA with its loops merged to at most X scores n! / prod(k_i!) orders; SALSA's annealing always the same number. For each X: orders,
time estimated as tau * orders with tau measured here, time and energy where they are at most `--orders`. SALSA is run with
the paper's annealing (one run of 1,000 orders, T0 = 0.05, rho = 0.999) and with the defaults here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.core.goals import Budget, Objective
from codesign.mappers.loop_order.factors import count_orders, merge_loops, prime_loops
from codesign.mappers.loop_order.loma import LomaMapper
from codesign.mappers.loop_order.salsa import SalsaMapper
from experiments.mappers_common import draw, markdown, save, timed
from experiments.options import parse_config
from experiments.salsa_common import PAPER, layer_of, measure_tau_s, warm_up


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        network: Whose layer; AlexNet's second in Fig. 3.
        layer: Its number among the distinct layers, from 1.
        orders: Orders that LOMA may score; above, its time is only estimated.
        seed: Of SALSA.
        out: Folder of results.
    """

    network: str = "alexnet"
    layer: int = 2
    orders: int = 10_000_000
    seed: int = 0
    out: Path = Path("results/salsa_fig3")


def main(config: Config) -> dict[str, Any]:
    """Run every limit and both settings of SALSA, write results, table and figure."""
    warm_up()
    layer = layer_of(config.network, config.layer)
    primes = prime_loops(layer)
    tau_s = measure_tau_s(layer, primes, Objective.ENERGY)
    loma = []
    for limit in range(4, len(primes) + 1):
        loops = merge_loops(primes, limit)
        row: dict[str, Any] = {"limit": limit, "orders": count_orders(loops)}
        row["estimated_s"] = tau_s * row["orders"]
        if row["orders"] <= config.orders:
            exhaustive = LomaMapper(lpf_limit=limit)
            result, seconds = timed(
                lambda m=exhaustive: m.map_orders(layer, Objective.ENERGY, budget=Budget(), seed=config.seed)  # type: ignore[misc]
            )
            row |= {"cpu_seconds": seconds, "energy_pj": None if result.cost is None else result.cost.energy_pj}
        loma.append(row)
    salsa = {}
    for name, mapper in (("SALSA, the paper's run", PAPER), ("SALSA, defaults here", SalsaMapper(engine="annealing"))):
        found, seconds = timed(
            lambda m=mapper: m.map_orders(layer, Objective.ENERGY, budget=Budget(), seed=config.seed)  # type: ignore[misc]
        )
        energy = None if found.cost is None else found.cost.energy_pj
        salsa[name] = {"orders": found.evaluated, "cpu_seconds": seconds, "energy_pj": energy}
    text = _table(loma, salsa)
    out = config.out / f"{config.network}-{config.layer}"
    save(out, config, {"tau_s": tau_s, "loma": loma, "salsa": salsa}, text)

    def paint(axes: Any) -> None:
        axes[0].semilogy([r["limit"] for r in loma], [r["estimated_s"] for r in loma], "--", color="#b8c0cf")
        run = [r for r in loma if "cpu_seconds" in r]
        axes[0].semilogy([r["limit"] for r in run], [r["cpu_seconds"] for r in run], "o-", label="LOMA")
        axes[1].plot([r["limit"] for r in run], [r["energy_pj"] for r in run], "o-", label="LOMA")
        for (name, row), style in zip(salsa.items(), (":", "-"), strict=True):
            axes[0].axhline(row["cpu_seconds"], color="k", ls=style, lw=0.8, label=name)
            if row["energy_pj"] is not None:
                axes[1].axhline(row["energy_pj"], color="k", ls=style, lw=0.8, label=name)
        axes[0].set_ylabel("CPU seconds (dashed: tau * orders)")
        axes[1].set_ylabel("energy")
        for axis in axes:
            axis.set_xlabel("loops at most (LPF limit)")
            axis.legend(frameon=False)

    draw(out / "figure.svg", 2, paint)
    print(f"tau = {1e6 * tau_s:.2f} microseconds an order\n{text}")
    return {"loma": loma, "salsa": salsa}


def _table(loma: list[dict[str, Any]], salsa: dict[str, dict[str, Any]]) -> str:
    energies = [r.get("energy_pj") for r in (*loma, *salsa.values())]
    best = min((e for e in energies if e), default=float("nan"))

    def over(energy: float | None) -> str:
        return "-" if energy is None else f"{100 * (energy / best - 1):.3f} %"

    lines = [
        (
            f"LOMA {r['limit']}",
            f"{r['orders']:,}",
            f"{r['estimated_s']:.3g}",
            f"{r['cpu_seconds']:.3f}" if "cpu_seconds" in r else "-",
            over(r.get("energy_pj")),
        )
        for r in loma
    ]
    lines += [(n, f"{r['orders']:,}", "-", f"{r['cpu_seconds']:.3f}", over(r["energy_pj"])) for n, r in salsa.items()]
    return markdown(("search", "orders", "estimated s", "CPU s", "energy over the best found"), lines)


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    return parse_config(__doc__, Config(), {"orders": 5_000}, arguments)


if __name__ == "__main__":
    main(parse_args())
