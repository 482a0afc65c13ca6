"""Seeds of tests that draw their problems: two of five by default, the others among the slow oracles."""

from typing import Any

import pytest


def seeds(count: int) -> list[Any]:
    """Numbers from 0 for `pytest.mark.parametrize`; those not run by default run with ``-m oracle``.

    Tests take remainders of a seed by 2, 3, 4 and 6 to choose a case: in steps of five all of them come up.
    """
    return [n if n % 5 in (0, 3) else pytest.param(n, marks=pytest.mark.slow("oracle")) for n in range(count)]
