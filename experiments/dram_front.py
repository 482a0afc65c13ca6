"""What the DRAM device and the locality of its accesses change on a study's front: energies by command in place of one figure a bit.

`python -m experiments.dram_front --study FOLDER [--out FOLDER] [--smoke]`: designs of the scratchpad space with their mappings as they
are; each design's DRAM energy is that of the device at the design's own burst. No mapping is searched again.
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codesign.arch.constants import Constant
from codesign.arch.dram import DramType, dram_energy_pj_per_bit
from codesign.arch.dram_power.known_devices import power_devices
from codesign.arch.dram_power.locality import dram_type_named
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError
from codesign.optim.pareto import nondominated
from codesign.report.sensitivity import energy_by_constant, scaled_metrics
from codesign.study.study import Study, Trial

SHARES = (0.0, 0.5, 0.9)


@dataclass(frozen=True)
class Config:
    """What is compared.

    Args:
        study: Folder of a study of the scratchpad space.
        shares: Shares of bursts whose row is open.
        out: Where `dram_front.json` goes; None writes nothing.
    """

    study: Path
    shares: tuple[float, ...] = SHARES
    out: Path | None = None


def run(config: Config) -> list[dict[str, Any]]:
    """One row a device and share, the study's own figure first.

    Raises:
        UserError: The study has no feasible trial or is not of the scratchpad space.
    """
    study = Study.open(config.study)
    trials = [t for t in study.trials if not t.infeasible]
    if not trials or "burst_beats" not in trials[0].point:
        raise UserError("--study must be a study of the scratchpad space with feasible designs", where=study.label)
    parts = {t.number: energy_by_constant(study.detail(t.number), t.metrics) for t in trials}
    names = [f"{name}@{share:g}" for name in power_devices() for share in config.shares]
    before = _front(study, trials)
    own = {t.number: _level_pj_per_bit(study, t) for t in trials}
    rows = [_row("as explored", study, trials, before, before)]
    for name in names:
        dram = dram_type_named(name)
        scaled = [_under(t, parts[t.number], own[t.number], dram, _own_type(study, t)) for t in trials]
        rows.append(_row(name, study, scaled, before, _front(study, scaled)))
    if config.out is not None:
        config.out.mkdir(parents=True, exist_ok=True)
        (config.out / "dram_front.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows


def _burst_bytes(trial: Trial) -> int:
    return int(trial.point["bus_bits"]) // 8 * int(trial.point["burst_beats"])


def _own_type(study: Study, trial: Trial) -> DramType:
    name = str(study.detail(trial.number)["architecture"]["technology"])
    return load_technology(name).dram_type()


def _level_pj_per_bit(study: Study, trial: Trial) -> float:
    """What a bit of DRAM costs a design, its DMA included."""
    level = study.detail(trial.number)["architecture"]["levels"][0]
    return float(level["read_pj"] or 0.0) / level["word_bits"]


def _under(trial: Trial, parts: dict[Constant, float], own: float, dram: DramType, before: DramType) -> Trial:
    burst = _burst_bytes(trial)
    change = dram_energy_pj_per_bit(dram, burst) - dram_energy_pj_per_bit(before, burst)
    return replace(trial, metrics=scaled_metrics(trial, parts, Constant.DRAM, 1.0 + change / own))


def _front(study: Study, trials: list[Trial]) -> tuple[int, ...]:
    valid = [t for t in trials if study.is_valid(t)]
    if not valid:
        return ()
    return tuple(t.number for t, best in zip(valid, nondominated(study.values(valid)), strict=True) if best)


def _row(
    name: str, study: Study, trials: list[Trial], before: tuple[int, ...], front: tuple[int, ...]
) -> dict[str, Any]:
    energy = {t.number: t.metrics["energy_j"] for t in trials}
    valid = [t for t in trials if study.is_valid(t)]
    least = min(valid, key=lambda t: t.metrics["energy_j"], default=None)
    return {
        "dram": name,
        "front": sorted(front),
        "stay": len(set(front) & set(before)),
        "enter": len(set(front) - set(before)),
        "leave": len(set(before) - set(front)),
        "allowed": len(valid),
        "least_energy_trial": None if least is None else least.number,
        "least_energy_mj": None if least is None else 1e3 * energy[least.number],
    }


def main(arguments: list[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.dram_front", description=__doc__)
    parser.add_argument("--study", required=True, type=Path, help="folder of a study")
    parser.add_argument("--out", type=Path, help="write dram_front.json here")
    parser.add_argument("--smoke", action="store_true", help="one share only")
    given = parser.parse_args(arguments)
    rows = run(Config(given.study, SHARES[:1] if given.smoke else SHARES, given.out))
    print(f"{'DRAM':24} {'front':>6} {'stay':>5} {'enter':>6} {'leave':>6} {'allowed':>8} {'least energy':>13}")
    for row in rows:
        energy = "-" if row["least_energy_mj"] is None else f"{row['least_energy_mj']:10.2f} mJ"
        counts = f"{len(row['front']):6} {row['stay']:5} {row['enter']:6} {row['leave']:6} {row['allowed']:8}"
        print(f"{row['dram']:24} {counts} {energy:>13}")
    print(json.dumps({"rows": len(rows)}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
