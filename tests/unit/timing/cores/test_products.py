"""Matrix products on a system of cores (rules G2 to G4)."""

import math
from itertools import product as choices

import pytest

from codesign.core.errors import UserError
from codesign.timing.cores.matmul import DEPTHS, SIDES, Product, Tiling, product_time, resident_blocks, tiled_time
from codesign.timing.cores.system import CoreSystem, load_system
from codesign.timing.cores.whole_network import product_of
from codesign.workloads.computation import Computation

A100, MI210 = load_system("a100"), load_system("mi210")


@pytest.mark.parametrize("system", [A100, MI210], ids=lambda s: s.name)
@pytest.mark.parametrize("sizes", [(8, 3072, 12288), (300, 500, 700), (2048, 2048, 128)])
def test_no_tiling_that_fits_is_quicker(system: CoreSystem, sizes: tuple[int, int, int]) -> None:
    product = Product(*sizes, batch=3)
    best = product_time(system, product)
    for rows, columns, depth, power in choices(SIDES, SIDES, DEPTHS, range(5)):
        tiling = Tiling(rows, columns, depth, 2**power)
        allowed = depth <= system.constant("deepest_step") and (
            tiling.split == 1
            or (tiling.split <= system.constant("largest_split") and product.k // tiling.split >= 4 * depth)
        )
        if allowed and resident_blocks(system, product, tiling):
            assert tiled_time(system, product, tiling).seconds >= best.seconds


def test_one_block_more_than_cores_takes_a_second_wave() -> None:
    tiling = Tiling(256, 128)
    assert resident_blocks(A100, Product(256, 128, 4096), tiling) == 1
    one, two = (tiled_time(A100, Product(256, 128 * n, 12288), tiling) for n in (108, 109))
    assert (one.waves, two.waves) == (1, 2)
    assert two.core_s > 1.9 * one.core_s


def test_long_products_reach_the_fitted_share_of_the_peak() -> None:
    product = Product(27648, 16384, 65536)  # 108 x 128 tiles of 256 x 128: no wave is ragged
    seconds = product_time(A100, product).seconds
    peak = A100.cores * A100.macs_per_core * A100.clock_hz
    share = product.m * product.n * product.k / seconds / peak
    assert 0.97 * A100.constant("matrix_share") < share <= A100.constant("matrix_share")


def test_a_product_never_beats_its_bytes_or_its_arithmetic() -> None:
    for m, n, k in choices((1, 100, 5000), repeat=3):
        product = Product(m, n, k)
        seconds = product_time(A100, product).seconds
        assert seconds >= (product.input_bytes + product.result_bytes) / A100.dram_rate * (1 - 1e-12)
        assert seconds >= m * n * k / (A100.cores * A100.macs_per_s)


def test_few_outputs_of_a_long_reduction_are_split() -> None:
    assert product_time(A100, Product(8, 256, 65536)).tiling.split > 1
    assert product_time(MI210, Product(8, 256, 65536)).tiling.split == 1


def test_narrow_weights_take_fewer_bytes() -> None:
    wide, narrow = Product(1, 12288, 12288), Product(1, 12288, 12288, right_bytes=0.5)
    ratio = product_time(A100, wide).seconds / product_time(A100, narrow).seconds
    assert 3 < ratio < 4


def test_products_of_computations() -> None:
    scores = Computation.parse("S[b,h,g,t,c] += Q[b,h,g,t,d] * K[b,h,c,d]", b=2, h=8, g=4, t=5, c=100, d=128)
    assert product_of(scores) == Product(20, 100, 128, 16, 1, 1, 1)


def test_empty_products_are_refused() -> None:
    with pytest.raises(UserError, match=r"`n` must be >= 1, got 0 \(matrix product\)"):
        Product(4, 0, 4)


def test_time_grows_with_every_size() -> None:
    sizes = [(64, 256, 256), (128, 256, 256), (128, 512, 256), (128, 512, 1024), (1024, 4096, 4096)]
    seconds = [product_time(MI210, Product(*s)).seconds for s in sizes]
    assert seconds == sorted(seconds) and math.isfinite(seconds[-1])


def test_a_cluster_loads_what_its_blocks_share_once() -> None:
    system = load_system("h100")
    alone = system.with_constants({"cluster_blocks": 1})
    product, tiling = Product(8192, 12288, 12288), Tiling(128, 256)
    # 384 rows and columns a block, of which pairs share 256: 1.5 times fewer from the cache, which steps wait for; results are not shared
    assert tiled_time(alone, product, tiling).core_s / tiled_time(system, product, tiling).core_s == pytest.approx(
        1.5, abs=0.03
    )


def test_a_cluster_shares_nothing_with_a_block_that_is_not_there() -> None:
    system, deep = load_system("h100"), 1 << 20
    alone, tiling = system.with_constants({"cluster_blocks": 1}), Tiling(128, 256)
    # one row of blocks shares its 128 rows, 64 of 384 less; one column of blocks its 256 columns, 128 less; one block nothing
    for m, n, less in ((128, 256 * 264, 64), (128 * 264, 256, 128), (128, 256, 0)):
        pair, one = (tiled_time(s, Product(m, n, deep), tiling).core_s for s in (system, alone))
        assert pair / one == pytest.approx(1 - less / 384, abs=0.01)
