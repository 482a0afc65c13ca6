"""Hardware/software co-design of tensor accelerators.

For a workload (a neural network from ONNX, or tensor algebra in the field's notation) this
package finds the accelerators worth building, each judged with the best software mapping that
can be found for it. See `docs/explanation/architecture.md` for how the parts fit together.

>>> import codesign
>>> found = codesign.map_layer("gemm M=16 N=16 K=16", "eyeriss")
>>> found.proof.value
'optimal'
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign.core.errors import CodesignError as CodesignError
    from codesign.core.errors import UserError as UserError
    from codesign.evaluation.specification import BetweenLayers as BetweenLayers
    from codesign.evaluation.specification import ChoicesSpec as ChoicesSpec
    from codesign.evaluation.specification import JudgeSpec as JudgeSpec
    from codesign.evaluation.specification import WorkloadSpec as WorkloadSpec
    from codesign.library.build_options import BuildOptions as BuildOptions
    from codesign.library.building import build as build
    from codesign.library.certificates import check_certificate as check_certificate
    from codesign.library.inputs import load_architecture as load_architecture
    from codesign.library.inputs import load_layer as load_layer
    from codesign.library.map_options import MapOptions as MapOptions
    from codesign.library.mapping import evaluate as evaluate
    from codesign.library.mapping import map_layer as map_layer
    from codesign.library.mapping import map_network as map_network
    from codesign.library.other_rules import map_files as map_files
    from codesign.library.scheduling import ScheduleOptions as ScheduleOptions
    from codesign.library.scheduling import schedule as schedule
    from codesign.library.serve_options import ServeOptions as ServeOptions
    from codesign.library.serving import serve as serve
    from codesign.library.studies import compare as compare
    from codesign.library.studies import explore as explore
    from codesign.library.studies import open_study as open_study
    from codesign.library.tensorizing import TensorizeOptions as TensorizeOptions
    from codesign.library.tensorizing import tensorize as tensorize
    from codesign.library.timing import TimingOptions as TimingOptions
    from codesign.study.specification import FidelitySpec as FidelitySpec
    from codesign.study.specification import PlaceSpec as PlaceSpec
    from codesign.study.specification import SearchSpec as SearchSpec
    from codesign.study.specification import StudySpec as StudySpec
    from codesign.study.specification import WorkersSpec as WorkersSpec
    from codesign.workloads.load import load_network as load_network

_OFFERED = {
    "CodesignError": "codesign.core.errors",
    "UserError": "codesign.core.errors",
    "load_architecture": "codesign.library.inputs",
    "load_layer": "codesign.library.inputs",
    "load_network": "codesign.workloads.load",
    "MapOptions": "codesign.library.map_options",
    "evaluate": "codesign.library.mapping",
    "map_layer": "codesign.library.mapping",
    "map_network": "codesign.library.mapping",
    "map_files": "codesign.library.other_rules",
    "ScheduleOptions": "codesign.library.scheduling",
    "schedule": "codesign.library.scheduling",
    "ServeOptions": "codesign.library.serve_options",
    "serve": "codesign.library.serving",
    "BuildOptions": "codesign.library.build_options",
    "build": "codesign.library.building",
    "TensorizeOptions": "codesign.library.tensorizing",
    "tensorize": "codesign.library.tensorizing",
    "explore": "codesign.library.studies",
    "TimingOptions": "codesign.library.timing",
    "check_certificate": "codesign.library.certificates",
    **dict.fromkeys(("BetweenLayers", "ChoicesSpec", "JudgeSpec", "WorkloadSpec"), "codesign.evaluation.specification"),
    **dict.fromkeys(
        ("FidelitySpec", "PlaceSpec", "SearchSpec", "StudySpec", "WorkersSpec"), "codesign.study.specification"
    ),
    "compare": "codesign.library.studies",
    "open_study": "codesign.library.studies",
}
"""Name -> module that has it; each is imported when the name is first used."""

__all__ = ["__version__", *sorted(_OFFERED)]


def __getattr__(name: str) -> Any:
    """What is offered, imported on first use; the version, read on first use."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            value: Any = version("accel-codesign")
        except PackageNotFoundError:  # run from a source tree that was never installed
            value = "0+unknown"
    elif name in _OFFERED:
        value = getattr(importlib.import_module(_OFFERED[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def offered() -> dict[str, str]:
    """Every name that the package offers and the module that has it."""
    return dict(_OFFERED)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
