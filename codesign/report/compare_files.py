"""A comparison of optimisers written down: the page, tables as CSV, a LaTeX table."""

from collections.abc import Sequence
from pathlib import Path

from codesign.core.files import csv_text, write_atomic
from codesign.report.compare import Comparison, Group, comparison_json
from codesign.report.html_page import asset, build_page


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """Write the page that overlays the curves; returns its path."""
    data = comparison_json(comparison)
    write_atomic(path, build_page("Comparison of optimisers", asset("compare.html"), data, ("compare.js",)))
    return path


def write_all(comparison: Comparison, folder: Path) -> list[Path]:
    """Write ``compare.html``, ``optimizers.csv``, ``curves.csv``, ``tests.csv`` and ``table.tex`` into a folder."""
    texts = {
        "optimizers.csv": summary_csv(comparison),
        "curves.csv": curves_csv(comparison),
        "tests.csv": tests_csv(comparison),
        "table.tex": latex_table(comparison),
    }
    for name, text in texts.items():
        write_atomic(folder / name, text)
    return [write_comparison(comparison, folder / "compare.html"), *(folder / name for name in texts)]


def summary_csv(comparison: Comparison) -> str:
    """One row an optimiser: runs, trials, quartiles at the end, trials to every level (median; empty if not reached)."""
    head = ["optimizer", "runs", "trials", "lower_quartile", "median", "upper_quartile", "share_of_all_runs"]
    head += [f"trials_to_{level:.6g}" for level in comparison.levels] + ["median_seconds"]
    head += ["median_distance_to_proven_front"] if comparison.proven is not None else []
    head += ["certified_factor"]
    rows = []
    for g in comparison.groups:
        low, middle, high = (float(v) for v in g.quartiles[:, -1])
        seconds = sorted(g.seconds)[len(g.seconds) // 2]
        needed = [g.trials_to(level) for level in comparison.levels]
        rows.append(
            [
                g.optimizer,
                len(g.seeds),
                g.curves.shape[1],
                low,
                middle,
                high,
                middle / comparison.best,
                *needed,
                seconds,
                *([sorted(g.distances)[len(g.distances) // 2]] if g.distances else []),
                "" if g.certified is None else g.certified,
            ]
        )
    return csv_text([head, *rows])


def curves_csv(comparison: Comparison) -> str:
    """One row a run and trial: the hypervolume so far."""
    rows: list[Sequence[object]] = [["optimizer", "seed", "trial", "hypervolume"]]
    for group in comparison.groups:
        for seed, curve in zip(group.seeds, group.curves, strict=True):
            rows += [[group.optimizer, seed, k + 1, float(value)] for k, value in enumerate(curve)]
    return csv_text(rows)


def tests_csv(comparison: Comparison) -> str:
    """One row a pair of optimisers."""
    head = ["better", "worse", "trials", "superiority_a12", "mann_whitney_p_holm", "wilcoxon_p_holm", "least_p"]
    rows = [
        [t.left, t.right, t.trials, t.superiority, t.p_value, t.paired_p_value, t.least_p_value]
        for t in comparison.tests
    ]
    return csv_text([head, *rows])


def latex_table(comparison: Comparison) -> str:
    """A table for a paper; it needs the package booktabs."""
    levels = [f"{100 * level / comparison.best:.3g}\\,\\%" for level in comparison.levels]
    best = comparison.groups[0].optimizer
    lines = [
        "% \\usepackage{booktabs}",
        "\\begin{table}",
        "  \\centering",
        f"  \\caption{{Hypervolume by optimiser: median and quartiles over runs, logarithms to base 10, reference point "
        f"({_escape(comparison.reference_text)}). Trials: median until a share of the hypervolume of all runs is reached. "
        f"$A_{{12}}$: probability that a run of {_escape(best)} ends higher; $p$: Mann--Whitney, adjusted after Holm.}}",
        f"  \\begin{{tabular}}{{lrr{'r' * len(levels)}rr}}",
        "    \\toprule",
        f"    & & & \\multicolumn{{{len(levels)}}}{{c}}{{trials to}} & & \\\\",
        f"    optimiser & runs & hypervolume & {' & '.join(levels)} & $A_{{12}}$ & $p$ \\\\",
        "    \\midrule",
        *(f"    {_latex_row(comparison, group)}" for group in comparison.groups),
        "    \\bottomrule",
        "  \\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(comparison: Comparison, group: Group) -> str:
    low, middle, high = group.quartiles[:, -1]
    needed = [group.trials_to(level) for level in comparison.levels]
    trials = ["--" if n is None else f"{n:g}" for n in needed]
    test = _test_against_best(comparison, group.optimizer)
    cells = [
        _escape(group.optimizer),
        str(len(group.seeds)),
        f"{middle:.3f} [{low:.3f}, {high:.3f}]",
        *trials,
        *test,
    ]
    return " & ".join(cells) + " \\\\"


def _test_against_best(comparison: Comparison, name: str) -> tuple[str, str]:
    best = comparison.groups[0].optimizer
    for test in comparison.tests:
        if {test.left, test.right} == {best, name}:
            superiority = test.superiority if test.left == best else 1 - test.superiority
            return f"{superiority:.2f}", f"{test.p_value:.2g}"
    return "--", "--"


def _escape(text: str) -> str:
    """Text for LaTeX, its special characters escaped."""
    replaced = "".join(f"\\{c}" if c in "&%$#_{}" else c for c in text)
    return replaced.replace("µ", "$\\mu$").replace("²", "$^2$").replace("·", "$\\cdot$")
