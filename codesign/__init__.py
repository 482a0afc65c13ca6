"""Hardware/software co-design of tensor accelerators.

For a workload (a neural network from ONNX, or tensor algebra in the field's notation) this
package finds the accelerators worth building, each judged with the best software mapping that
can be found for it. See `docs/explanation/architecture.md` for how the parts fit together.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("accel-codesign")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
