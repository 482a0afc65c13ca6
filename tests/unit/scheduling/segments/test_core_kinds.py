"""Systems with several kinds of cores: files, parts, buffers, mappings, costs, pictures (rules M121 to M127)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.arch import many_core_files
from codesign.arch.architecture import Architecture
from codesign.arch.chiplet_cost import core_areas_um2, money
from codesign.arch.core_kinds import kind_counts, own_architecture, record_of, whole_architecture
from codesign.arch.many_core import CoreKind, Dies, Links, ManyCore
from codesign.arch.many_core_files import load_system
from codesign.arch.many_core_scaling import architecture_of
from codesign.core.errors import UserError
from codesign.core.goals import Objective, Proof
from codesign.core.point import PointValue
from codesign.core.specs import spec_from_json, spec_to_json
from codesign.evaluation.detail import FusedDetail
from codesign.evaluation.many_cores import SegmentsEvaluator
from codesign.evaluation.system_chips import one_die
from codesign.mappers.exact.mapper import ExactMapper
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.contention import ContentionSimulator
from codesign.scheduling.segments.evaluate import OWN_RULES, SET_RULES, Evaluator
from codesign.scheduling.segments.kernels import core_mapper, layout
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer, SegmentNetwork
from codesign.scheduling.segments.mapped_cores import mapped_figures
from codesign.scheduling.segments.scheduler import result_of
from codesign.scheduling.segments.search import SearchSettings, TreeSearch
from codesign.scheduling.segments.system_page import page
from codesign.scheduling.segments.tree_files import tree_from_json, tree_lines, tree_to_json


def layer(name: str, k: int, inputs: tuple[int, ...], groups: int = 1) -> SegmentLayer:
    kind = LayerKind.CONV if groups == 1 else LayerKind.GROUP_CONV
    return SegmentLayer(
        name, kind, 16, k, 3, 3, 8, 8, groups=groups, pad_h=1, pad_w=1, in_h=8, in_w=8,
        weight_words=16 // groups * k * 9, external_c=0 if inputs else 16, inputs=inputs,
    )  # fmt: skip


NETWORK = SegmentNetwork("pair", (layer("wide", 16, ()), layer("deep", 16, (0,), groups=16)))


def two_kinds(**more: Any) -> ManyCore:
    """tpu-quad whose second column is of a kind with a smaller buffer."""
    quad = load_system("tpu-quad")
    small = replace(quad.core, big=replace(quad.core.big, bytes=43000))
    return replace(quad, kinds=(CoreKind("small", small),), places=(("core", "small"),) * 2, **more)


def tree(wide: dict[str, Any], deep: dict[str, Any], batch: int = 2) -> dict[str, Any]:
    children = [{"layer": "wide", "batch": batch, **wide}, {"layer": "deep", "batch": batch, **deep}]
    return {"cut": "time", "batch": 2, "children": children}


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([["core", "small"], ["core"]], r"the core at \(1, 1\) has no kind"),
        ([["core", "small"]], r"the core at \(0, 1\) has no kind"),
        ([["core", "core"], ["core", "core"]], "the kind 'small' has no place on the mesh"),
        ([["small", "small"], ["small", "small"]], "the kind 'core' has no place on the mesh"),
        ([["core", "smal"], ["core", "small"]], "unknown kind of core 'smal'"),
        ([["core", "small", "core"], ["core", "small"]], "`places` must be 2 rows of 2 kinds"),
    ],
)
def test_places_and_kinds_must_fit_each_other(places: list[list[str]], message: str) -> None:
    value = {**spec_to_json(two_kinds()), "places": places}
    with pytest.raises(UserError, match=message):
        spec_from_json(ManyCore, value, "file.yaml")


def test_kinds_are_records_or_architectures() -> None:
    core = load_system("tpu-quad").core
    with pytest.raises(UserError, match="got neither"):
        CoreKind("small")
    with pytest.raises(UserError, match="got both"):
        CoreKind("small", core, "eyeriss")
    with pytest.raises(UserError, match="`vector_unit_macs` stands beside an `architecture`; a `core` has its own"):
        CoreKind("small", core, vector_unit_macs=8)
    with pytest.raises(UserError, match="a kind of cores needs a name"):
        CoreKind("", core)
    with pytest.raises(UserError, match="`vector_unit_pj` must be >= 0"):
        CoreKind("small", architecture="eyeriss", vector_unit_pj=-1.0)
    with pytest.raises(UserError, match="two kinds of cores are named 'core'"):
        replace(two_kinds(), kinds=(CoreKind("core", core),))
    with pytest.raises(UserError, match="at most 4 kinds"):
        replace(two_kinds(), kinds=tuple(CoreKind(name, core) for name in "abcd"))
    with pytest.raises(UserError, match="elements of 8 bits, got MACs of 16"):
        record_of(CoreKind("wide", architecture="eyeriss"))


def test_a_system_with_kinds_is_its_file() -> None:
    for system in (two_kinds(), load_system("tpu-duo")):
        assert spec_from_json(ManyCore, spec_to_json(system), "file") == system


def test_equal_kinds_cost_what_equal_cores_do() -> None:
    quad = load_system("tpu-quad")
    same = replace(quad, kinds=(CoreKind("other", quad.core),), places=(("core", "other"),) * 2)
    assert same.core_places == quad.core_places
    root = tree_from_json(tree({"parts": {"K": 2, "H": 2}}, {"parts": {"K": 4}}), NETWORK, "tree")
    found, plain = (Evaluator(s, NETWORK, OWN_RULES).evaluate(root).rows for s in (same, quad))
    for one, other in zip(found, plain, strict=True):
        assert one.time == other.time and one.energy_pj == pytest.approx(other.energy_pj, rel=1e-12)
        assert (one.counter == other.counter).all() and (one.usage_bytes == other.usage_bytes).all()
    assert money(same) == money(quad)


def test_unequal_parts_are_written_read_and_charged_by_core() -> None:
    evaluator = Evaluator(two_kinds(), NETWORK, OWN_RULES)
    value = tree({"parts": {"K": [10, 0, 6], "W": 1}, "order": "KBHW"}, {"parts": {"H": [6, 2]}, "kind": "small"})
    value["children"][0]["parts"] = {"K": [10, 4, 0, 2]}
    root = tree_from_json(value, NETWORK, "tree")
    assert tree_to_json(root, NETWORK)["children"][0]["parts"] == {"K": [10, 4, 0, 2], "B": 1, "H": 1, "W": 1}
    assert tree_from_json(tree_to_json(root, NETWORK), NETWORK, "tree") == root
    found = evaluator.evaluate(root)
    assert any("wide: K10+4+0+2;" in line for line in tree_lines(found, NETWORK))
    assert any("deep: H6+2 on small; cores 2 to 3" in line for line in tree_lines(found, NETWORK))
    sizes = [evaluator.figures_on(0, 0, (16, k, 3, 3, 8, 8, 1, 1, 2, 1)) for k in (10, 4, 2)]
    core = found.rows[1].core
    assert core is not None
    assert core[core_mapper.CYCLES] == max(s[core_mapper.CYCLES] for s in sizes if s is not None)
    idle = evaluator.site_kind[evaluator.fabric.order[2]]
    assert idle == 1 and found.rows[1].usage_bytes[:, evaluator.fabric.order[2]].sum() == 0, "no part, no words"


@pytest.mark.parametrize(
    ("deep", "message"),
    [
        ({"parts": {"K": [8, 4, 2, 1]}}, r"layer 'deep' has 16 along K, its parts are \[8, 4, 2, 1\]"),
        ({"parts": {"K": [8, 8]}}, "is cut into 2 parts on 4 cores"),
        ({"parts": {"K": [8, "x"]}}, "`K` must be a number of equal parts or the sizes of all parts"),
        ({"parts": {"K": 2}, "kind": "tiny"}, "unknown kind of core 'tiny'"),
    ],
)
def test_parts_and_kinds_of_a_tree_are_checked(deep: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Evaluator(two_kinds(), NETWORK, OWN_RULES).evaluate(
            tree_from_json(tree({"parts": {"K": 4}}, deep), NETWORK, "tree")
        )


def test_what_kinds_are_not_for_is_refused() -> None:
    with pytest.raises(UserError, match="the recorded programs know equal cores alone"):
        Evaluator(two_kinds(), NETWORK, SET_RULES)
    with pytest.raises(UserError, match="cut into unequal parts on equal cores"):
        Evaluator(load_system("tpu-quad"), NETWORK, OWN_RULES).evaluate(
            tree_from_json(tree({"parts": {"K": [4, 4, 4, 4]}}, {"parts": {"K": 4}}), NETWORK, "tree")
        )
    with pytest.raises(UserError, match="equal cores alone"):
        one_die(two_kinds())


def test_the_buffer_of_each_kind_counts() -> None:
    evaluator = Evaluator(two_kinds(), NETWORK, OWN_RULES)
    found = evaluator.evaluate(tree_from_json(tree({"parts": {"K": 4}}, {"parts": {"K": 4}}), NETWORK, "tree"))
    over = evaluator.overflow(found)
    assert over is not None and over.limit == 43000 and over.demand > 43000 and over.unit == "bytes"
    assert (
        over.detail == "core (1, 1) of kind 'small' in segment 1, wide" or "of kind 'small' in segment" in over.detail
    )
    reported = result_of(evaluator, found, bound_of(evaluator, 2), Objective.EDP, 1, 0.0, 0)
    assert reported.peak_buffer_bytes <= reported.capacity_bytes == load_system("tpu-quad").core.big.bytes
    large = replace(two_kinds(), kinds=(CoreKind("small", load_system("tpu-quad").core),))
    assert Evaluator(large, NETWORK, OWN_RULES).overflow(found) is None


def test_shares_are_those_of_least_time_for_their_weights() -> None:
    borders = np.zeros(4, np.int64)
    layout.share_out(7, np.array([3.0, 1.0, 0.0]), 3, borders)
    assert borders[3] == borders[2] == 7
    best = min(max(a / 3.0, (7 - a) / 1.0) for a in range(8))
    assert max(borders[1] / 3.0, (borders[2] - borders[1]) / 1.0) == best


@dataclass(frozen=True)
class OneSystem:
    """A space of one design."""

    whole: ManyCore

    def build(self, point: Mapping[str, PointValue]) -> Architecture:
        return architecture_of(self.whole)

    def system(self, point: Mapping[str, PointValue]) -> ManyCore:
        return self.whole


def test_cycles_of_computing_count_every_kind_at_its_pace() -> None:
    """The same cores by other names take the same time."""
    first = two_kinds()
    other, fast = first.kinds[0].core, replace(first.core, vector=32)
    assert other is not None
    swapped = replace(first, core=other, kinds=(CoreKind("large", fast),), places=(("large", "core"),) * 2)
    taken = []
    for system in (replace(first, core=fast), swapped):
        settings = SearchSettings(steps=1, least_use=0.0)
        found = SegmentsEvaluator(OneSystem(system), ((NETWORK, 1.0),), 2, settings)({})
        assert isinstance(found.detail, FusedDetail)
        taken.append(found.detail.networks[0]["compute_cycles"])
    assert taken[0] == taken[1] > 0


def test_architectures_are_mapped_by_the_exact_mapper_and_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs, best = [], ExactMapper.map

    def noted(self: ExactMapper, *problem: Any, **options: Any) -> Any:
        found = best(self, *problem, **options)
        proofs.append(found.proof)
        return found

    monkeypatch.setattr(ExactMapper, "map", noted)
    mapped_figures.cache_clear()
    duo = load_system("tpu-duo")
    evaluator = Evaluator(duo, NETWORK, OWN_RULES)
    assert kind_counts(duo) == (2, 2) and own_architecture(duo.kinds[0]).levels[0].capacity_bytes is None
    search = TreeSearch(evaluator, 2, SearchSettings(steps=120, least_use=0.0))
    found = search.run().evaluation
    assert proofs and all(proof is Proof.OPTIMAL for proof in proofs)
    assert np.count_nonzero(search.work.problem.exact_keys) > 0
    bound = bound_of(evaluator, 2)
    assert bound.edp <= found.edp and evaluator.overflow(found) is None
    value = search.mapped_value
    assert np.exp(value) == pytest.approx(found.edp, rel=1e-9), "what the search saw is what the exact mapper says"
    simulated = ContentionSimulator(evaluator).simulate(found)
    assert simulated.complete and simulated.time >= found.rows[0].time
    drawn = page(evaluator, found, bound, simulated)
    assert "2 channels of 16,384 MACs" in drawn and "of kind channels at (1, 1)" in drawn
    assert drawn.count("stroke:#c8553d") >= 2 and "Border of a core: its kind" in drawn


def test_a_record_of_a_system_needs_no_file_of_its_architectures() -> None:
    duo = load_system("tpu-duo")
    recorded = json.dumps(spec_to_json(duo))
    assert ".yaml" not in recorded
    again = spec_from_json(ManyCore, json.loads(recorded), "recorded")
    file = Path(many_core_files.__file__).parent / "systems" / "cores" / "channel-array.yaml"
    assert whole_architecture(again.kinds[0]) == whole_architecture(CoreKind("channels", architecture=str(file)))


def test_costs_are_those_of_each_kind() -> None:
    duo = load_system("tpu-duo")
    first, second = core_areas_um2(duo)
    whole = whole_architecture(duo.kinds[0])
    assert second > 1e6 * (whole.area_mm2 or 0.0)
    assert money(duo).core_area_um2 == pytest.approx((first + second) / 2)
    for system in (duo, two_kinds()):
        assert architecture_of(system).area_mm2 == pytest.approx(money(system).total_mm2)
    cut = two_kinds(dies=Dies(2, 1, words_per_cycle=4))
    mixed = replace(cut, places=(("core", "small"), ("small", "core")))
    assert money(cut).total_mm2 == pytest.approx(money(mixed).total_mm2)
    assert money(cut).chip_usd != money(mixed).chip_usd, "a die of large cores and one of small ones"


@pytest.mark.parametrize("batch", [1, 4])
def test_the_bound_knows_that_large_groups_take_no_time_to_enter(batch: int) -> None:
    """Each sample of a product of activations is a group; the template counts no time for words of groups over its elements."""
    duo = two_kinds()
    slow = replace(duo.core, vector=8, lanes=8, elements_a=2, elements_o=2, buffer_words_per_cycle=1)
    wide = replace(duo, core=slow, kinds=(CoreKind("small", slow),), links=Links(2**16, 0.1))
    narrow = SegmentLayer("a", LayerKind.CONV, 1, 64, 1, 1, 8, 8, in_h=8, in_w=8, weight_words=64, external_c=1)
    product = replace(narrow, name="c", C=64, K=4, weight_words=256, external_c=0, inputs=(0,), weight_inputs=(1,))
    network = SegmentNetwork("product", (narrow, replace(narrow, name="b", K=4, weight_words=4), product))
    evaluator = Evaluator(wide, network, OWN_RULES)
    found = TreeSearch(evaluator, batch, SearchSettings(steps=500, least_use=0.0)).run().evaluation
    bound = bound_of(evaluator, batch)
    assert bound.time <= found.rows[0].time and bound.edp <= found.edp
