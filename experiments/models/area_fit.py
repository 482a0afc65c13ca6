"""Areas of a family of netlists as sums of parts: each part's size times one non-negative constant.

What grows with what is read off the generator's text; how large each part is comes from a few synthesised sizes. The constants minimise
the squares of relative errors, so a small netlist weighs as much as a large one, and none is negative: a part takes area.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codesign.core.errors import UserError

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AreaFit:
    """Constants of a family.

    Args:
        parts: Names of the parts.
        um2: Area of one unit of each.
    """

    parts: tuple[str, ...]
    um2: tuple[float, ...]

    def predict_um2(self, sizes: FloatArray) -> FloatArray:
        """Areas of netlists whose parts have these sizes, shape (netlists, parts)."""
        return np.asarray(sizes @ np.array(self.um2), dtype=np.float64)


def fit_areas(parts: tuple[str, ...], sizes: FloatArray, areas_um2: FloatArray) -> AreaFit:
    """Constants that minimise the squares of relative errors.

    Args:
        parts: Names of the parts.
        sizes: Of each netlist's parts, shape (netlists, parts).
        areas_um2: Synthesised areas, shape (netlists,).

    Raises:
        UserError: Fewer netlists than parts, areas that are not positive, or parts that always grow together.
    """
    if sizes.shape != (len(areas_um2), len(parts)):
        raise UserError(f"sizes must be {len(areas_um2)} netlists x {len(parts)} parts, got {sizes.shape}")
    if not (areas_um2 > 0).all():
        raise UserError(f"areas must be positive, got {float(areas_um2.min())} um2")
    relative = sizes / areas_um2[:, None]
    if np.linalg.matrix_rank(relative) < len(parts):
        raise UserError(
            f"{len(areas_um2)} netlists cannot tell the {len(parts)} parts {', '.join(parts)} apart",
            hint="synthesise sizes in which the parts grow differently",
        )
    from scipy.optimize import nnls

    found, _ = nnls(relative, np.ones(len(areas_um2)))
    return AreaFit(parts, tuple(float(v) for v in found))
