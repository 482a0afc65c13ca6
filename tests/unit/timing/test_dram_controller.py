"""Every burst of a stream is served, whatever reads and writes of one address wait at the same time."""

import numpy as np
import pytest

from codesign.timing.dram.channel import FINISHED
from codesign.timing.dram.device import load_device
from codesign.timing.dram.memory import serve_stream

BURST_BYTES = 64


@pytest.mark.parametrize(("addresses", "writes"), [(60, 0.5), (100, 0.5), (200, 0.3), (1000, 0.6)])
@pytest.mark.parametrize("seed", range(3))
def test_streams_that_use_addresses_again_come_to_their_end(addresses: int, writes: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 3000
    address, write = rng.integers(0, addresses, count) * BURST_BYTES, (rng.random(count) < writes).astype(np.int64)
    run, served = serve_stream(load_device("ddr4_2400_x16"), address, write, cycle_limit=100_000)
    assert run.complete and served.status == FINISHED
    assert (served.done > served.accepted).all()
