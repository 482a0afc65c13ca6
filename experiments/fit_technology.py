"""Fit the SRAM curves of docs/reference/technology.md (S1-S3) to a CACTI sweep and report their errors.

    python -m experiments.fit_technology --out runs/technology

writes `sram_fit.json` (coefficients and errors per node), `sram_fit.yaml`, the `sram:` section that
`codesign/arch/technologies/cmos.yaml` carries, and `sram_fit.svg`, a picture. Deterministic for one seed.
"""

import argparse
import csv
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy
import yaml

from codesign.arch.sram import (
    AccessFit,
    AreaFit,
    LeakageFit,
    fitted_access_pj,
    fitted_area_mm2,
    fitted_leakage_mw,
)

FloatArray = npt.NDArray[np.float64]
NodeFit = dict[str, dict[str, dict[str, float]]]
"""Per quantity: coefficients, errors, errors of what banks change."""


@dataclass(frozen=True)
class Config:
    """What a fit depends on."""

    sweep: Path = Path(os.environ.get("CODESIGN_REFERENCE", "tests/data")) / "technology" / "sram_cacti7.csv"
    """CACTI's figures, one memory a line."""
    seed: int = 0
    """Of the starting points."""
    starts: int = 12
    """Starting points per quantity; the best end is kept."""
    bank_weight: float = 1.0
    """Weight of the error in the ratio of a memory with banks to the same memory without, beside the errors themselves:
    what banks are worth is a difference of nearly equal figures, which errors of each alone would drown."""
    soft: float = 0.15
    """Log error beyond which a point counts linearly, so that CACTI's jumps do not pull the curve."""
    out: Path = Path("runs/technology")
    """Folder of the results."""
    smoke: bool = False
    """One starting point."""


@dataclass(frozen=True)
class Sweep:
    """Columns of the sweep at one node, each ``n``."""

    capacity_bytes: FloatArray
    word_bits: FloatArray
    banks: FloatArray
    read_pj: FloatArray
    write_pj: FloatArray
    leakage_mw: FloatArray
    area_mm2: FloatArray

    @property
    def size(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What every curve is a function of."""
        return self.capacity_bytes, self.word_bits, self.banks


def read_sweep(path: Path) -> dict[float, Sweep]:
    """The sweep by node; leakage is made a total over the banks as the other columns are."""
    with path.open() as stream:
        rows = list(csv.DictReader(stream))
    sweeps = {}
    for node in sorted({float(r["node_nm"]) for r in rows}, reverse=True):
        part = [r for r in rows if float(r["node_nm"]) == node]

        def column(name: str, part: list[dict[str, str]] = part) -> FloatArray:
            return np.array([float(r[name]) for r in part])

        banks = column("banks")
        sweeps[node] = Sweep(
            capacity_bytes=column("capacity_bytes"),
            word_bits=column("word_bits"),
            banks=banks,
            read_pj=column("read_energy_pj"),
            write_pj=column("write_energy_pj"),
            leakage_mw=column("leakage_mw_per_bank") * banks,
            area_mm2=column("area_mm2"),
        )
    return sweeps


def errors(predicted: FloatArray, measured: FloatArray) -> dict[str, float]:
    """Relative errors: median, 95th percentile, largest."""
    relative = np.abs(predicted / measured - 1)
    return {
        "median": float(np.median(relative)),
        "p95": float(np.quantile(relative, 0.95)),
        "max": float(relative.max()),
    }


def _area(t: FloatArray) -> AreaFit:
    k = np.exp(t[:3])
    return AreaFit(cell=k[0], edge=k[1], route=k[2], route_power=t[3])


def _access(t: FloatArray) -> AccessFit:
    k = np.exp(t[:5])
    steep, flat = (0, 1) if t[5] >= t[6] else (1, 0)  # the two are interchangeable; small memories follow the steeper
    return AccessFit(
        small=k[steep],
        small_power=t[5 + steep],
        large=k[flat],
        large_power=t[5 + flat],
        array=k[2],
        array_width=t[7],
        array_bits=t[8],
        wide=k[3],
        wide_width=t[9],
        route=k[4],
        route_width=t[10],
    )


def _leakage(t: FloatArray) -> LeakageFit:
    k = np.exp(t[:3])
    return LeakageFit(cell=k[0], edge=k[1], edge_bits=t[3], route=k[2], route_width=t[4], route_power=t[5])


def banked_pairs(sweep: Sweep) -> npt.NDArray[np.int64]:
    """Rows (with banks, the same without), ``m x 2``."""
    row = {size: i for i, size in enumerate(zip(*sweep.size, strict=True))}
    pairs = [
        (i, row[capacity, word, 1.0])
        for (capacity, word, banks), i in row.items()
        if banks > 1 and (capacity, word, 1.0) in row
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)


def bank_errors(predicted: FloatArray, measured: FloatArray, sweep: Sweep) -> dict[str, float]:
    """Relative errors of the ratio of a memory with banks to the same without, words of 32 to 256 bits."""
    pairs = banked_pairs(sweep)
    usual = (sweep.word_bits[pairs[:, 0]] >= 32) & (sweep.word_bits[pairs[:, 0]] <= 256)
    first, second = pairs[usual].T
    return errors(predicted[first] / predicted[second], measured[first] / measured[second])


def _minimise(
    curve: Callable[[FloatArray], FloatArray],
    measured: FloatArray,
    sweep: Sweep,
    logs: list[float],
    powers: list[float],
    c: Config,
) -> FloatArray:
    """Least squares of the log error from several starts; `logs` are unbounded, `powers` in [0, 4]."""
    from scipy.optimize import least_squares

    rng = np.random.default_rng(c.seed)
    first = np.array(logs + powers)
    low = np.array([-60.0] * len(logs) + [0.0] * len(powers))
    high = np.array([10.0] * len(logs) + [4.0] * len(powers))
    with_banks, without = banked_pairs(sweep).T

    def residuals(t: FloatArray) -> FloatArray:
        error = np.log(curve(t) / measured)
        return np.concatenate([error, c.bank_weight * (error[with_banks] - error[without])])

    best, best_cost = first, np.inf
    for _ in range(1 if c.smoke else c.starts):
        start = np.clip(first + rng.normal(0, 0.2, first.size), low + 1e-6, high - 1e-6)
        end = least_squares(residuals, start, loss="soft_l1", f_scale=c.soft, bounds=(low, high), max_nfev=600)
        if end.cost < best_cost:
            best, best_cost = end.x, end.cost
    return best


def fit_node(sweep: Sweep, c: Config) -> NodeFit:
    """Coefficients and errors of the four curves at one node."""
    size = sweep.size
    area = _area(
        _minimise(lambda t: fitted_area_mm2(_area(t), *size), sweep.area_mm2, sweep, [-15, -12, -16], [1.3], c)
    )
    area_mm2 = fitted_area_mm2(area, *size)
    result = {"area": _record(area, area_mm2, sweep.area_mm2, sweep)}
    for name, measured in (("read", sweep.read_pj), ("write", sweep.write_pj)):

        def curve(t: FloatArray) -> FloatArray:
            return fitted_access_pj(_access(t), area_mm2, *size)

        powers = [0.8, 0.4, 1.0, 0.6, 1.8, 1.0]
        access = _access(_minimise(curve, measured, sweep, [-7, -4, -8, -9, -0.7], powers, c))
        result[name] = _record(access, fitted_access_pj(access, area_mm2, *size), measured, sweep)
    leakage = _leakage(
        _minimise(
            lambda t: fitted_leakage_mw(_leakage(t), *size),
            sweep.leakage_mw,
            sweep,
            [-19, -17, -20],
            [0.7, 1.8, 1.0],
            c,
        )
    )
    result["leakage"] = _record(leakage, fitted_leakage_mw(leakage, *size), sweep.leakage_mw, sweep)
    return result


def _record(
    fit: AreaFit | AccessFit | LeakageFit, predicted: FloatArray, measured: FloatArray, sweep: Sweep
) -> dict[str, dict[str, float]]:
    return {
        "fit": {name: float(f"{value:.6g}") for name, value in asdict(fit).items()},
        "error": errors(predicted, measured),
        "bank_error": bank_errors(predicted, measured, sweep),
    }


def to_yaml(fits: dict[float, NodeFit]) -> str:
    """The `sram:` section of a technology file."""
    section = [
        {
            "node_nm": node,
            "source": "fitted to a CACTI 7 sweep: plain RAM, one read-write port, low-standby-power, 300 K",
            **{name: part["fit"] for name, part in fit.items()},
        }
        for node, fit in fits.items()
    ]
    return yaml.safe_dump({"sram": section}, sort_keys=False)


_PLOT_WORDS = {32.0: "#1f77b4", 128.0: "#2ca02c", 512.0: "#d62728"}
_PLOT_BYTES, _PLOT_PJ = (64.0, 64e6), (0.05, 3000.0)
_WIDTH, _HEIGHT, _MARGIN = 640.0, 400.0, 50.0


def _place(capacity_bytes: float, energy_pj: float) -> tuple[float, float]:
    """Point of the picture; both axes are logarithmic."""
    across = np.log(capacity_bytes / _PLOT_BYTES[0]) / np.log(_PLOT_BYTES[1] / _PLOT_BYTES[0])
    up = np.log(energy_pj / _PLOT_PJ[0]) / np.log(_PLOT_PJ[1] / _PLOT_PJ[0])
    return _MARGIN + across * (_WIDTH - 2 * _MARGIN), _HEIGHT - _MARGIN - up * (_HEIGHT - 2 * _MARGIN)


def to_svg(sweeps: dict[float, Sweep], fits: dict[float, NodeFit]) -> str:
    """Read energy of one bank against capacity: the sweep as dots, the curves as lines (dashed: the smaller node)."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH:g}" height="{_HEIGHT:g}" fill="white"/>',
    ]
    for exponent in range(6, 26, 2):
        x, y = _place(2.0**exponent, _PLOT_PJ[0])
        label = f"{2**exponent} B" if exponent < 10 else f"{2 ** (exponent - 10)} KiB"
        parts.append(f'<text x="{x:.0f}" y="{y + 18:.0f}" text-anchor="middle">{label}</text>')
    for energy in (0.1, 1, 10, 100, 1000):
        x, y = _place(_PLOT_BYTES[0], energy)
        parts.append(f'<text x="{x - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">{energy:g}</text>')
        parts.append(f'<path d="M{x:.0f} {y:.0f}H{_WIDTH - _MARGIN:.0f}" stroke="#ddd"/>')
    parts.append('<text x="50" y="20">read energy of one word, one bank [pJ]; dots CACTI, lines fit</text>')
    for k, (word, colour) in enumerate(_PLOT_WORDS.items()):
        parts.append(f'<text x="{60 + 90 * k}" y="40" fill="{colour}">{word:g} bits</text>')
    for (node, sweep), dash in zip(sweeps.items(), ("none", "5 3"), strict=False):
        hollow = dash != "none"
        style = "dashed, hollow" if hollow else "solid"
        parts.append(f'<text x="{460 if hollow else 350}" y="40">{style}: {node:g} nm</text>')
        area, read = AreaFit(**fits[node]["area"]["fit"]), AccessFit(**fits[node]["read"]["fit"])
        for word, colour in _PLOT_WORDS.items():
            rows = (sweep.word_bits == word) & (sweep.banks == 1)
            capacities = np.geomspace(sweep.capacity_bytes[rows].min(), sweep.capacity_bytes[rows].max(), 60)
            size = (capacities, np.full(60, word), np.ones(60))
            energies = fitted_access_pj(read, fitted_area_mm2(area, *size), *size)
            line = "L".join("{:.1f} {:.1f}".format(*_place(c, e)) for c, e in zip(capacities, energies, strict=True))
            parts.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-dasharray="{dash}"/>')
            for c, e in zip(sweep.capacity_bytes[rows], sweep.read_pj[rows], strict=True):
                x, y = _place(c, e)
                fill = "none" if hollow else colour
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{fill}" stroke="{colour}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def run(c: Config) -> dict[float, NodeFit]:
    """Fit every node of the sweep and write the results."""
    sweeps = read_sweep(c.sweep)
    fits = {node: fit_node(sweep, c) for node, sweep in sweeps.items()}
    c.out.mkdir(parents=True, exist_ok=True)
    record = {
        "config": {k: str(v) if isinstance(v, Path) else v for k, v in asdict(c).items()},
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__},
        "nodes": {f"{node:g}": fit for node, fit in fits.items()},
    }
    (c.out / "sram_fit.json").write_text(json.dumps(record, indent=1) + "\n")
    (c.out / "sram_fit.yaml").write_text(to_yaml(fits))
    (c.out / "sram_fit.svg").write_text(to_svg(sweeps, fits))
    return fits


def main() -> None:
    """Parse the options, fit, print the errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweep", type=Path, default=Config.sweep)
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--starts", type=int, default=Config.starts)
    parser.add_argument("--out", type=Path, default=Config.out)
    parser.add_argument("--smoke", action="store_true")
    config = Config(**vars(parser.parse_args()))
    print("relative error                      of the figure          of the ratio banks / no banks")
    print("node  quantity                   median   p95   max        median   p95   max")
    for node, fit in run(config).items():
        for name, part in fit.items():
            e, b = part["error"], part["bank_error"]
            print(
                f"{node:4g}  {name:24s} {e['median']:6.3f} {e['p95']:6.3f} {e['max']:6.3f}"
                f"       {b['median']:6.3f} {b['p95']:6.3f} {b['max']:6.3f}"
            )


if __name__ == "__main__":
    main()
