"""The picture of a front that the README shows: `python -m experiments.front_figure runs/demo docs/images/front.svg`."""

import argparse
from pathlib import Path

from codesign.evaluation.metrics import UNITS
from codesign.study.study import Study


def draw(study: Study, path: Path) -> None:
    """Write two projections of a study's designs as SVG; the front is coloured by area.

    Args:
        study: With objectives latency, energy and area.
        path: Where the picture goes.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "codesign"
    front = study.front()
    others = [t for t in study.trials if study.is_valid(t) and t not in front]
    pairs = [("latency_s", "energy_j"), ("latency_s", "area_mm2")]
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), constrained_layout=True)
    for axis, (x, y) in zip(axes, pairs, strict=True):
        axis.loglog(
            [t.metrics[x] for t in others], [t.metrics[y] for t in others], ".", color="#b8c0cf", label="dominated"
        )
        axis.loglog(
            [t.metrics[x] for t in front], [t.metrics[y] for t in front], "o", color="#1f6feb", label="Pareto front"
        )
        axis.set_xlabel(f"{x.rsplit('_', 1)[0]} [{UNITS[x]}]")
        axis.set_ylabel(f"{y.rsplit('_', 1)[0]} [{UNITS[y]}]")
        axis.grid(visible=True, which="both", alpha=0.25)
    axes[0].legend(frameon=False)
    figure.suptitle(
        f"{' + '.join(study.config['workload']['names'])}: {len(front)} of {len(study.trials)} designs on the front"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Draw the front of a study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    draw(Study.open(arguments.study), arguments.out)
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
