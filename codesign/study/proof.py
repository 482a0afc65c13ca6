"""What is proven of a study's front, as a file beside it: the certificate, its outer bound, and how the gap fell."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from codesign.core.files import read_kept, write_json
from codesign.optim.certificate import Certificate
from codesign.optim.pareto import thinned

CERTIFICATE_FILE = "certificate.json"

MOST_POINTS = 1500
"""Points of the outer bound that are written; more are thinned by taking the least of neighbours, which keeps it a bound."""

MOST_STEPS = 2000
"""Steps of the gap's history that are written, evenly chosen."""


@final
@dataclass
class GapHistory:
    """How what is proven changed with the trials: rows of trials, epsilon proven, hypervolume inside and outside.

    Args:
        rows: So far.
    """

    rows: list[list[float | None]] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path) -> "GapHistory":
        """That of an earlier run in the same folder, to be continued."""
        found = read_proof(folder)
        return cls([list(row) for row in (found or {}).get("history", [])])

    def add(self, trials: int, state: Certificate) -> None:
        """What is proven after so many trials."""
        row = [trials, state.finite_gap, state.hypervolume_inner, state.hypervolume_outer]
        self.rows = [r for r in self.rows if r[0] is not None and r[0] < trials]
        self.rows.append(row)


def write_proof(
    folder: Path, state: Certificate, objectives: Sequence[str], outer: NDArray[np.float64], history: GapHistory
) -> Path:
    """Write the certificate; returns its path.

    Args:
        folder: Of the study.
        state: The certificate.
        objectives: Names of the columns of `outer`.
        outer: Points that no design lies below: ``k x m``; empty without proof.
        history: How the gap fell.
    """
    path = folder / CERTIFICATE_FILE
    rows = history.rows[:: max(1, -(-len(history.rows) // MOST_STEPS))]
    if history.rows and rows[-1] is not history.rows[-1]:
        rows = [*rows, history.rows[-1]]
    document = {
        **state.to_json(),
        "sentence": state.sentence(),
        "objectives": list(objectives),
        "outer_front": thinned(outer, MOST_POINTS).tolist(),
        "history": rows,
    }
    write_json(path, document)
    return path


def read_proof(folder: Path) -> dict[str, Any] | None:
    """What `write_proof` wrote; None where there is none."""
    return read_kept(folder / CERTIFICATE_FILE) or None
