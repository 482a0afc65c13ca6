import numpy as np
import pytest

from codesign.core.errors import UserError
from experiments.exhaustive import TABLES, read_table
from experiments.fidelity import LOW_TABLES, PRICES, main, shares


def test_one_fidelity_and_two_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--smoke"])
    alone, both = capsys.readouterr().out.splitlines()
    assert "high fidelity alone" in alone
    assert "0 low-fidelity" in alone
    assert "two fidelities" in both
    assert int(both.split()[-2]) >= 5


def test_a_case_without_a_low_fidelity_table_is_refused() -> None:
    with pytest.raises(UserError, match="gemmcore"):
        main(["--cases", "gemmcore"])


@pytest.mark.parametrize("name", PRICES)
def test_low_fidelity_tables_cover_the_exact_ones_and_are_no_better(name: str) -> None:
    low, high = read_table(LOW_TABLES / f"{name}.csv"), read_table(TABLES / f"{name}.csv")
    assert low.keys() == high.keys()
    both = [(low[k], high[k]) for k in high if np.isfinite(low[k].latency_s)]
    assert len(both) > 0.9 * len(high)
    assert all(c.area_mm2 == pytest.approx(d.area_mm2) for c, d in both)
    assert all(c.latency_s * c.energy_j >= 0.999 * d.latency_s * d.energy_j for c, d in both)


def test_shares_count_what_was_spent() -> None:
    exact = np.array([[1.0, 4.0], [2.0, 2.0], [4.0, 1.0]])
    found, spent = exact[[1, 0, 2]], np.array([1.5, 2.5, 3.5])
    result = shares(found, spent, exact, (1, 2, 4))
    assert result[0] == 0.0
    assert 0.0 < result[1] < 1.0
    assert result[2] == pytest.approx(1.0)
