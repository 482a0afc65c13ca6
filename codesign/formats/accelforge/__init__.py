"""AccelForge's architecture and workload files (docs/explanation/exact-mapper.md, uneven mapping under LoopTree's rules)."""

from codesign.formats.accelforge.arch import Costs, machines
from codesign.formats.accelforge.text import load
from codesign.formats.accelforge.workload import Workload, read_workload

__all__ = ["Costs", "Workload", "load", "machines", "read_workload"]
