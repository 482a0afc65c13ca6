"""The laws of a search space, run over a table of spaces; any new kind of space belongs in `SPACES`."""

import json
from pathlib import Path

import numpy as np
import pytest

from codesign.optim.protocols import SearchSpace
from spaces import Categorical, Condition, Constraint, Integer, Ordinal, PowerOfTwo, Space
from spaces.space_file import load_space_file

SPACES: dict[str, Space] = {
    "plain": Space([Integer("banks", 1, 8), Ordinal("pe_rows", [4, 8, 16]), Categorical("dataflow", ["ws", "os"])]),
    "one": Space([PowerOfTwo("size", 16, 16)]),
    "labels": Space([Categorical("flow", ["ws", "os", "rs"]), Ordinal("effort", ["low", "mid", "high"])]),
    "zero": Space([Ordinal("cache", [0, 1, 2, 8]), Integer("offset", -3, 3)]),
    "conditional": Space(
        [
            Categorical("links", ["none", "systolic", "full"]),
            PowerOfTwo("fifo", 1, 8, when=Condition("links", ("systolic", "full"))),
            Integer("hops", 1, 3, when=Condition("fifo", (4, 8))),
        ]
    ),
    "constrained": Space(
        [Integer("rows", 1, 16), Integer("cols", 1, 16), Categorical("flow", ["ws", "os"])],
        [
            Constraint("array", "rows * cols <= 64 and (flow != 'os' or rows % 2 == 0)", "too many PEs"),
            Constraint("shape", lambda p: int(p["rows"]) <= 2 * int(p["cols"])),
        ],
        [{"rows": 8, "cols": 8, "flow": "ws"}],
    ),
}
SPACES["file"] = load_space_file(Path(__file__).parents[2] / "data" / "spaces" / "clustered.yaml").space


@pytest.fixture(params=sorted(SPACES))
def space(request: pytest.FixtureRequest) -> Space:
    return SPACES[request.param]


def test_satisfies_the_optimisers_protocol(space: Space) -> None:
    used: SearchSpace = space
    assert len(used.names) == len(used.cardinalities) == len(used.ordered)


def test_points_and_rows_are_inverse(space: Space) -> None:
    rows = space.enumerate()
    points = space.to_points(rows)
    assert np.array_equal(space.to_indices(points), rows)
    assert len({json.dumps(p, sort_keys=True) for p in points}) == len(rows)


def test_points_hold_plain_values(space: Space) -> None:
    point = space.to_points(space.sample(1, np.random.default_rng(0)))[0]
    assert json.loads(json.dumps(point)) == point


def test_samples_are_valid_canonical_and_repeatable(space: Space) -> None:
    rows = space.sample(50, np.random.default_rng(3))
    assert rows.shape == (50, space.dimension)
    assert space.is_valid(rows).all()
    assert np.array_equal(rows, space.canonical(rows))
    assert np.array_equal(rows, space.sample(50, np.random.default_rng(3)))


def test_sampling_reaches_every_design(space: Space) -> None:
    everything = {tuple(r) for r in space.enumerate()}
    drawn = {tuple(r) for r in space.sample(60 * len(everything), np.random.default_rng(0))}
    assert drawn == everything


def test_neighbours_are_valid_new_and_differ_in_one_choice(space: Space) -> None:
    for row in space.sample(10, np.random.default_rng(1)):
        around = space.neighbours(row)
        assert space.is_valid(around).all()
        assert not (around == row).all(axis=1).any()
        assert len(np.unique(around, axis=0)) == len(around)
        parents = {p.when.parameter for p in space.parameters if p.when is not None}
        for other in around:
            changed = [n for n, a, b in zip(space.names, row, other, strict=True) if a != b]
            assert len(changed) == 1 or set(changed) & parents


def test_features_tell_designs_apart_in_the_unit_cube(space: Space) -> None:
    rows = space.enumerate()
    features = space.features(rows)
    assert features.shape == (len(rows), len(space.feature_owners))
    assert features.min() >= 0.0
    assert features.max() <= 1.0
    assert len(np.unique(features, axis=0)) == len(rows)


def test_json_gives_an_equal_space(space: Space) -> None:
    if any(not isinstance(c.rule, str) for c in space.constraints):
        with pytest.raises(ValueError, match="'shape' is a Python callable"):
            space.to_json()
        return
    again = Space.from_json(json.loads(json.dumps(space.to_json())))
    assert again == space
    assert hash(again) == hash(space)
    assert again.fingerprint() == space.fingerprint()


def test_spaces_differ_in_their_fingerprints() -> None:
    assert len({s.fingerprint() for s in SPACES.values()}) == len(SPACES)
