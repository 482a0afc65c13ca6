import pytest

from codesign.arch.presets import load_preset
from codesign.evaluation.design import load_design_space
from spaces.eyeriss import EYERISS


def test_the_preset_design_is_eyeriss() -> None:
    built, published = EYERISS.build(EYERISS.space.presets[0]), load_preset("eyeriss")
    assert built.mesh == published.mesh
    for ours, theirs in zip(built.levels, published.levels, strict=True):
        assert ours.name == theirs.name
        assert ours.capacity_bytes == theirs.capacity_bytes
        assert ours.keep == theirs.keep or not theirs.keep
        assert ours.banks == theirs.banks
        assert ours.read_bandwidth_words_per_cycle == pytest.approx(theirs.read_bandwidth_words_per_cycle)
    assert built.clock_hz == published.clock_hz


def test_the_space_is_known_by_name_and_small_enough_to_enumerate() -> None:
    assert load_design_space("eyeriss") is EYERISS
    assert len(EYERISS.space.enumerate()) == 1536


@pytest.mark.parametrize(
    ("parameter", "level", "larger"),
    [("buffer_kib", "GlobalBuffer", 200), ("weight_words", "WeightSpad", 448), ("input_words", "InputSpad", 24)],
)
def test_larger_memories_hold_more_and_cost_more(parameter: str, level: str, larger: int) -> None:
    point = dict(EYERISS.space.presets[0])
    small, large = EYERISS.build(point), EYERISS.build({**point, parameter: larger})
    assert large.level(level).capacity_bytes > small.level(level).capacity_bytes  # type: ignore[operator]
    assert large.area_mm2 > small.area_mm2  # type: ignore[operator]


def test_a_wider_link_moves_more() -> None:
    point = dict(EYERISS.space.presets[0])
    narrow, wide = EYERISS.build(point), EYERISS.build({**point, "link_bits": 512})
    assert narrow.levels[0].read_bandwidth_words_per_cycle is not None
    assert wide.levels[0].read_bandwidth_words_per_cycle == pytest.approx(
        8 * narrow.levels[0].read_bandwidth_words_per_cycle
    )
