"""What every hardware space keeps: designs that build, complete figures, JSON, the same design for the same point."""

import json
import pickle
from abc import ABC, abstractmethod

import numpy as np

from codesign.arch.files import architecture_to_json
from codesign.core.point import Point
from codesign.evaluation.design import DesignSpace

DRAWN = 10


class SpaceContract(ABC):
    """Laws of `codesign.evaluation.design.DesignSpace`."""

    @abstractmethod
    def make(self) -> DesignSpace:
        """The space under test."""

    def _points(self) -> list[Point]:
        made = self.make()
        rows = made.space.sample(DRAWN, np.random.default_rng(0))
        found: list[Point] = [*made.space.presets, *made.space.to_points(rows)]
        return found

    def test_it_has_a_name_and_widths(self) -> None:
        """What a study records, and how wide operands are."""
        made = self.make()
        assert made.name and made.bits >= 1 and made.partial_bits >= made.bits
        assert json.loads(json.dumps(made.to_json()))["name"] == made.name

    def test_points_and_rows_are_inverse(self) -> None:
        """Equal designs are equal rows."""
        space = self.make().space
        rows = space.sample(DRAWN, np.random.default_rng(1))
        assert np.array_equal(space.to_indices(space.to_points(rows)), space.canonical(rows))
        assert space.is_valid(rows).all()

    def test_every_design_builds_with_all_figures(self) -> None:
        """Energies and areas are filled in; the hierarchy begins at DRAM."""
        made = self.make()
        for point in self._points():
            built = made.build(point)
            assert built.area_mm2 is not None and built.area_mm2 > 0
            assert all(level.energy is not None for level in built.levels), point
            assert built.mac_units >= 1 and built.clock_hz > 0

    def test_the_same_point_is_the_same_design_elsewhere(self) -> None:
        """Workers receive the space by pickle."""
        made = self.make()
        again: DesignSpace = pickle.loads(pickle.dumps(made))
        for point in self._points()[:3]:
            assert architecture_to_json(again.build(point)) == architecture_to_json(made.build(point))
