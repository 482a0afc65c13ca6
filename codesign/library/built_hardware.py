"""Generated hardware as a result."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast, final

from codesign.core.files import write_json
from codesign.core.json_types import Json, JsonObject
from codesign.library.results import AbstractResult

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from codesign.hardware.parameters import Parameters
    from codesign.hardware.power import MachinePower
    from codesign.hardware.synthesis import Synthesis
    from codesign.hardware.verilog import Netlist
    from codesign.library.build_options import BuildOptions
    from codesign.study.built import RunRecord


class HostRecord(TypedDict):
    """A host's program in its JSON form, and what it gave where it ran.

    `integers_equal` compares with the rules of ONNX as this package has them (a network) or with `einsum` (a single launch), `onnxruntime_equal` with
    ONNX Runtime, where that is installed.
    """

    launches: int
    predicted_cycles: int
    cycles: NotRequired[int]
    cycles_equal: NotRequired[bool]
    integers_equal: NotRequired[bool]
    onnxruntime_equal: NotRequired[bool]
    seconds: NotRequired[float]


class BuiltDocument(TypedDict):
    """Generated hardware in its JSON form: cycles, and what simulation and synthesis said."""

    status: str
    out: str
    files: list[str]
    predicted_cycles: int
    analytic_cycles: float
    generate_seconds: float
    simulation: NotRequired["RunRecord"]
    synthesis: NotRequired[JsonObject]
    power: NotRequired[JsonObject]
    host: NotRequired[HostRecord]


@final
@dataclass(frozen=True)
class BuiltHardware(AbstractResult):
    """Generated hardware with its program.

    Args:
        folder: Where its files are.
        files: Their names.
        document: Cycles, and what simulation and synthesis said.
        mismatch: The first difference between the simulated run and what it should give; None where there is none.
        synthesis: The netlist mapped to cells, where that was asked for.
        power: Of the simulated run on those cells, likewise.
    """

    folder: Path
    files: tuple[str, ...]
    document: BuiltDocument
    mismatch: str | None = None
    synthesis: "Synthesis | None" = None
    power: "MachinePower | None" = None

    def to_json(self) -> JsonObject:
        """See `AbstractResult`."""
        return {name: cast(Json, value) for name, value in self.document.items()}

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        document = self.document
        head: JsonObject = {
            "out": document["out"],
            "predicted_cycles": document["predicted_cycles"],
            "analytic_cycles": document["analytic_cycles"],
        }
        if "simulation" in self.document:
            run = self.document["simulation"]
            return {**head, "simulated_cycles": run["cycles"], "results": "equal" if run["bit_equal"] else "different"}
        return head

    def rows(self) -> list[JsonObject]:
        """One row for every file."""
        return [{"file": name, "size_bytes": (self.folder / name).stat().st_size} for name in self.files]

    def plot(self) -> "go.Figure":
        """Cycles by pipeline depths, by the cost model and, where it ran, simulated."""
        from codesign.report.figures import parts_figure

        parts = [("pipeline depths", float(self.document["predicted_cycles"]))]
        parts.append(("cost model", float(self.document["analytic_cycles"])))
        if "simulation" in self.document:
            parts.append(("simulated", float(self.document["simulation"]["cycles"])))
        return parts_figure(parts, "cycles", f"Cycles of the hardware in {self.folder}")


def finished(
    built: BuiltHardware, parameters: "Parameters", netlist: "Netlist", options: "BuildOptions"
) -> BuiltHardware:
    """Hardware mapped to cells where that is asked for, with its constraints and its record as files."""
    from codesign.hardware.build import write_constraints

    document, synthesis = built.document, built.synthesis
    if options.synthesize and synthesis is None:
        from codesign.hardware.synthesis import synthesize

        synthesis = synthesize(parameters, netlist)
        document["synthesis"] = synthesis.to_json()
    files = (*built.files, write_constraints(built.folder, parameters, synthesis))
    document["files"] = list(files)
    write_json(built.folder / "result.json", document)
    return replace(built, files=files, synthesis=synthesis)
