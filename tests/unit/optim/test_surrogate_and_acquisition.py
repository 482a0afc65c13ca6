"""The models against GPyTorch, gradients against differences, acquisitions against Monte Carlo."""

import warnings

import numpy as np
import pytest

from codesign.optim import ehvi, gp
from codesign.optim.hypervolume import Frame, hypervolume
from codesign.optim.pareto import front, nondominated
from codesign.optim.surrogate import geometry_of
from spaces import Categorical, Condition, Ordinal, PowerOfTwo, Space

GEOMETRY = gp.Geometry(
    (0, 1, 2, 2, 2),
    (True, True, False),
    (2.77, 0.69, 0.0),
    ((0, 0.0, 2.77), (1, 1.1, 0.69)),
    ((0, 1, 0.3, 0.46), (1, 0, 0.2, 0.4)),
)


def features(count: int, rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([rng.random((count, 2)), np.eye(3)[rng.integers(0, 3, count)]], axis=1)


@pytest.mark.parametrize("transfers", [0, 1])
def test_the_compiled_model_equals_gpytorch(transfers: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import torch

        from codesign.optim.botorch_models import FixedGP
    rng = np.random.default_rng(1)
    x, new = features(15, rng), features(6, rng)
    earlier, earlier_new = rng.standard_normal((15, transfers)), rng.standard_normal((6, transfers))
    model = gp.fit(GEOMETRY, x, 3.0 + 2.0 * x[:, 0] + rng.standard_normal(15), gp.Prior(noise=(0.1, 1.0)), earlier)
    mean, deviation = model.predict(new, earlier_new)
    width = new.shape[1] + transfers
    with torch.no_grad():
        same = FixedGP(model, width, slice(new.shape[1], width))
        posterior = same.posterior(torch.as_tensor(np.concatenate([new, earlier_new], axis=1)))
    assert np.allclose(posterior.mean.numpy()[:, 0] * model.scale + model.offset, mean, rtol=1e-6, atol=1e-8)
    assert np.allclose(posterior.variance.numpy()[:, 0].clip(0) ** 0.5 * model.scale, deviation, rtol=1e-5, atol=1e-7)


def test_the_gradient_of_the_likelihood_equals_differences() -> None:
    rng = np.random.default_rng(0)
    x, y = features(12, rng), rng.standard_normal(12)
    mean, sigma = gp.Prior().layout(GEOMETRY)
    theta = mean + 0.3 * rng.standard_normal(len(mean))
    args = (
        np.full((12, 12), 4.0),
        GEOMETRY.distances(x, x),
        GEOMETRY.products(x, x),
        GEOMETRY.squares(x),
        GEOMETRY.sides(x, x),
        y,
        mean,
        sigma,
    )
    _, gradient = gp._negative_log_posterior(theta, *args)
    for k in range(len(theta)):
        step = np.zeros_like(theta)
        step[k] = 1e-5
        up, down = (
            gp._negative_log_posterior(theta + step, *args)[0],
            gp._negative_log_posterior(theta - step, *args)[0],
        )
        assert gradient[k] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-5)


def test_conditioning_equals_fitting_the_longer_record() -> None:
    rng = np.random.default_rng(2)
    x, y = features(10, rng), rng.standard_normal(10)
    model = gp.fit(GEOMETRY, x, y, gp.Prior())
    new = features(3, rng)
    told = model.condition(new, model.predict(new)[0])
    probe = features(5, rng)
    assert np.allclose(model.mean(probe), model.predict(probe)[0], rtol=1e-12)
    assert np.allclose(told.predict(probe)[0], model.predict(probe)[0], atol=1e-4)  # its own belief moves no mean
    assert (told.predict(probe)[1] <= model.predict(probe)[1] + 1e-9).all()


def test_constant_targets_and_single_designs_can_be_fitted() -> None:
    x = features(4, np.random.default_rng(0))
    model = gp.fit(GEOMETRY, x, np.full(4, 7.0), gp.Prior())
    assert np.allclose(model.predict(x)[0], 7.0, atol=1e-6)
    one = gp.fit(GEOMETRY, x[:1], np.array([2.0]), gp.Prior())
    assert np.isfinite(one.predict(x)[1]).all()


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_boxes_fill_exactly_what_the_front_leaves(m: int) -> None:
    rng = np.random.default_rng(m)
    points = front(np.round(rng.random((12, m)), 1))  # rounding makes ties
    reference = np.full(m, 1.2)
    grid, cells = ehvi.boxes(points, reference)
    floor = -1.0
    lower = np.maximum(np.take_along_axis(grid, cells[:, :, 0].T, axis=1), floor)
    upper = np.take_along_axis(grid, cells[:, :, 1].T, axis=1)
    free = np.prod(upper - lower, axis=0).sum()
    assert free == pytest.approx((1.2 - floor) ** m - hypervolume(points, reference.tolist()))


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_expected_improvement_equals_monte_carlo(m: int) -> None:
    rng = np.random.default_rng(10 + m)
    points, reference = front(rng.random((8, m))), [1.1] * m
    grid, cells = ehvi.boxes(points, np.array(reference))
    mean, deviation = 0.5 * rng.random((1, m)), 0.1 + 0.2 * rng.random((1, m))
    drawn = mean + deviation * rng.standard_normal((4000, m))
    gains = np.array([hypervolume(np.concatenate([points, d[None]]), reference) for d in drawn])
    gains -= hypervolume(points, reference)
    error = gains.std() / np.sqrt(len(gains))
    assert ehvi.improvement(mean, deviation, grid, cells, True)[0] == pytest.approx(gains.mean(), abs=4 * error)
    chance = ehvi.improvement(mean, deviation, grid, cells, False)[0]
    assert chance == pytest.approx((gains > 0).mean(), abs=4 * 0.5 / np.sqrt(len(gains)))


def test_frames_state_their_reference_and_shares() -> None:
    exact = np.array([[1.0, 100.0], [10.0, 10.0], [100.0, 1.0]])
    frame = Frame.of_front(exact)
    assert frame.reference_point == pytest.approx((100 * 100**0.05, 100 * 100**0.05))
    assert frame.hypervolume(exact) == pytest.approx(1.05**2 - 1.0 + 0.5**2)
    assert frame.hypervolume(exact[1:2]) / frame.hypervolume(exact) == pytest.approx(0.55**2 / (1.05**2 - 0.75))
    assert frame.curve(exact)[-1] == pytest.approx(frame.hypervolume(exact))
    assert frame.hypervolume(np.array([[1e9, 1.0]])) == 0.0


def test_dominance() -> None:
    values = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [2.0, 2.0], [np.nan, 0.0]])
    assert nondominated(values).tolist() == [True, True, True, False, False]


def test_ranges_are_read_from_the_values_of_ordered_parameters() -> None:
    space = Space(
        [
            Ordinal("rows", [4, 8, 64]),
            Ordinal("grade", ["low", "high"]),
            Categorical("bits", [8, 16]),
            PowerOfTwo("banks", 1, 16, when=Condition("grade", ("high",))),
            Ordinal("spare", [0, 2, 4]),
        ]
    )
    assert geometry_of(space).ranges == pytest.approx((np.log(16), 0.0, 0.0, np.log(16), np.log(2)))


def test_a_wider_range_of_values_is_expected_to_matter_more_and_a_label_less() -> None:
    geometry = gp.Geometry((0, 1, 2), (True, True, False), (2.77, 0.69, 0.0))
    mean, _ = gp.Prior().layout(geometry)
    lengthscales, weights = mean[1:4], mean[5:8]
    assert lengthscales[0] < lengthscales[1]
    assert weights[0] > weights[1]
    assert weights[2] == pytest.approx(np.log(gp.Prior().label_weight))


def test_three_designs_of_growing_size_teach_a_trend_in_all_sizes() -> None:
    """Area grows with every size; designs never seen are ordered by how large they are, whichever size makes them so."""
    geometry = gp.Geometry((0, 1, 2), (True, True, True), (2.0, 2.0, 1.0))
    along = np.array([[0.25] * 3, [0.5] * 3, [0.75] * 3])
    model = gp.fit(geometry, along, np.log([1.0, 3.0, 9.0]), gp.Prior())
    mean, deviation = model.predict(np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]))
    assert (np.diff(mean) > 0.1).all()
    assert mean[2] - mean[1] > mean[3] - mean[2]  # the last size has half the range
    assert (deviation[1:3] > deviation[[0, 3]].min()).all()


def test_divisibility_of_sizes_is_read_from_features() -> None:
    space = Space([Ordinal("rows", [2, 3, 4, 8]), PowerOfTwo("columns", 2, 16), Ordinal("part", [0.5, 1.5])])
    geometry = geometry_of(space)
    assert len(geometry.whole) == 2 and {(p, q) for p, q, _, _ in geometry.pairs} == {(0, 1), (1, 0)}
    rows = space.enumerate()
    points = space.to_points(rows)
    found = geometry.divides(space.features(rows)) * np.sqrt(2.0)
    for column, (p, q, mean, spread) in enumerate(geometry.pairs):
        names = ("rows", "columns")
        divides = np.array([x[names[p]] % x[names[q]] == 0 for x in points])
        assert found[:, column] == pytest.approx((divides - mean) / spread)
    sides = geometry.sides(space.features(rows[:2]), space.features(rows[:2]))
    assert sides[0].ravel().tolist() == pytest.approx([1.0, 2 / 3, 2 / 3, 1.0])
