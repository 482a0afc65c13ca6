"""Ask/tell optimisers over discrete design spaces, and exact hypervolume.

>>> import spaces, codesign.optim
>>> space = spaces.Space([spaces.Integer("banks", 1, 8), spaces.Categorical("dataflow", ["ws", "os"])])
>>> optimizer = codesign.optim.create("random", space, objectives=["latency", "area"], seed=0)
>>> for point in optimizer.ask(2):
...     optimizer.tell(point, {"latency": 8.0 / point["banks"], "area": 1.0 + point["banks"]})
>>> len(optimizer.front())
2
"""

from codesign.optim.hypervolume import Frame, hypervolume
from codesign.optim.optimizer import Optimizer
from codesign.optim.outcomes import OutcomeConstraint
from codesign.optim.protocols import Evaluated, SearchSpace
from codesign.optim.registry import available, create, options_of

__all__ = [
    "Evaluated",
    "Frame",
    "Optimizer",
    "OutcomeConstraint",
    "SearchSpace",
    "available",
    "create",
    "hypervolume",
    "options_of",
]
