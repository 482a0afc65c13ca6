"""Contract suites for plug-in authors: inherit one, say how yours is made, and pytest runs the laws.

Each suite is an abstract class of tests; a subclass whose name begins with ``Test`` has one method to write.

    from codesign.testing import MapperContract
    from my_package import MyMapper

    class TestMyMapper(MapperContract):
        def make(self):
            return MyMapper()
"""

from codesign.testing.mappers import MapperContract
from codesign.testing.optimizers import OptimizerContract
from codesign.testing.readers import ReaderContract
from codesign.testing.schedulers import SchedulerContract
from codesign.testing.spaces import SpaceContract
from codesign.testing.technologies import TechnologyContract

__all__ = [
    "MapperContract",
    "OptimizerContract",
    "ReaderContract",
    "SchedulerContract",
    "SpaceContract",
    "TechnologyContract",
]
