"""`codesign map --semantics accelforge`: exact uneven and fused mappings under LoopTree's rules, from AccelForge's files."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from codesign.cli.compiling import echo_json

if TYPE_CHECKING:
    from pathlib import Path

    from codesign.cli.whole_network import Output
    from codesign.library.map_options import MapOptions


def map_looptree(files: Sequence[str], search: "MapOptions", output: "Output", certificate: "Path | None") -> None:
    """Find, print and write the best mapping of a workload's operators.

    Raises:
        UserError: A file is missing or not AccelForge's, or something in it is not supported.
    """
    from codesign.core.files import write_json
    from codesign.library.looptree_files import map_accelforge

    found, proof = map_accelforge(files, search, certify=certificate is not None)
    if certificate is not None:
        write_json(certificate, proof)
    if output.out is not None:
        write_json(output.out, found.to_json())
    if output.as_json:
        echo_json(found.to_json(), indent=1)
        return
    from codesign.cli.cost_text import provenance_line

    for line in found.lines:
        typer.echo(line)
    energy = "" if found.energy_j is None else f"energy {found.energy_j:.9g} J, "
    typer.echo(f"{energy}latency {found.latency_s:.9g} s, {found.objective} {found.value:.9g}")
    typer.echo(f"figures: {provenance_line(None)}")
    typer.echo(f"proof: {found.proof}, gap {found.gap:.3%}, {found.cpu_seconds:.3f} CPU s")
