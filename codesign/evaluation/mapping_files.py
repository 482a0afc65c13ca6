"""The mappings of a network as files: one a layer, with its problem, so that `codesign evaluate` reads each alone."""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from codesign.arch.architecture import Architecture
from codesign.arch.files import architecture_to_json
from codesign.core.errors import UserError
from codesign.core.files import write_atomic, write_json
from codesign.evaluation.whole_network import LayerKey, NetworkResult, layer_key
from codesign.formats.documents import Document, Kind, dump_yaml, read_documents
from codesign.formats.load import read_computation, read_mapping
from codesign.mapping.files import mapping_to_json
from codesign.mapping.mapping import Mapping
from codesign.mapping.validate import check_mapping
from codesign.workloads.files import computation_to_json

_log = logging.getLogger(__name__)

MAPPINGS_FOLDER, ARCH_FILE, RESULT_FILE, REPORT_FILE = "mappings", "arch.yaml", "result.json", "report.html"

_SUFFIXES = (".yaml", ".yml")


def file_name(position: int, layer: str) -> str:
    """The name of a layer's file without its suffix: its position (from 1) and its name, letters and digits only.

    >>> file_name(3, "/conv2/Conv")
    '03-conv2_Conv'
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", layer).strip("._") or "layer"
    return f"{position:02d}-{plain}"


def write_network_files(result: NetworkResult, folder: Path) -> list[Path]:
    """Write ``arch.yaml``, ``mappings/NN-LAYER.yaml`` (problem and mapping of each distinct layer) and ``result.json``.

    Returns:
        The files.

    Raises:
        UserError: The folder cannot be written, or holds mappings of another run under other names.
    """
    texts = {ARCH_FILE: dump_yaml({"architecture": architecture_to_json(result.architecture)})}
    for position, layer in enumerate(result.layers, start=1):
        mapped = layer.mapped
        cost, mapping = mapped.cost, mapped.mapping
        content = {
            "problem": computation_to_json(replace(mapped.computation, name=layer.name)),
            "mapping": mapping_to_json(mapping),
        }
        comment = f"{layer.name}, {layer.count:g} in the network: {cost.latency_cycles} cycles, {cost.energy_pj:.6g} pJ"
        name = f"{MAPPINGS_FOLDER}/{file_name(position, layer.name)}.yaml"
        texts[name] = dump_yaml(content, comment=" ".join(comment.split()))
    stale = [p for p in (folder / MAPPINGS_FOLDER).glob("*.yaml") if f"{MAPPINGS_FOLDER}/{p.name}" not in texts]
    if stale:
        raise UserError(
            f"holds mappings of something else: {stale[0].name}",
            where=str(folder / MAPPINGS_FOLDER),
            hint="give another --out, or remove them",
        )
    for name, text in texts.items():
        write_atomic(folder / name, text)
    write_json(folder / RESULT_FILE, result.to_json())
    return [folder / name for name in (*texts, RESULT_FILE)]


def read_mappings(folder: Path, architecture: Architecture, imperfect: bool = False) -> dict[LayerKey, Mapping]:
    """The mappings below a folder: files with a problem and its mapping, or folders with one file of each.

    What `write_network_files` and `codesign report --export` write, and Timeloop's problem and mapping files side by side.

    Args:
        folder: Searched with its subfolders for ``.yaml`` and ``.yml``.
        architecture: Whose levels the mappings name.
        imperfect: Whether the factors of a mapping may multiply to more than the bounds.

    Raises:
        UserError: There is no such folder, no mapping in it, a mapping without its problem, or two for one layer.
    """
    if not folder.is_dir():
        raise UserError("expected a folder of mapping files", where=str(folder))
    found: dict[LayerKey, tuple[Mapping, str]] = {}
    for problem, document in _pairs(folder):
        computation = read_computation(problem)
        mapping = read_mapping(document, computation, architecture, {})
        try:
            check_mapping(computation, architecture, mapping, imperfect=imperfect)
        except UserError as error:
            raise error.within(document.where) from None
        key = layer_key(computation)
        if key in found:
            bounds = " ".join(f"{dim}={size}" for dim, size in computation.sizes.items())
            raise UserError(
                f"two mappings of {computation} {bounds}: {found[key][1]} and {document.where}",
                where=str(folder),
                hint="keep one",
            )
        found[key] = (mapping, document.where)
    if not found:
        raise UserError("holds no mapping: no .yaml file with a `problem` and a `mapping`", where=str(folder))
    return {key: mapping for key, (mapping, _) in found.items()}


def _pairs(folder: Path) -> Iterator[tuple[Document, Document]]:
    """Every mapping with its problem: of the same file, else of the same folder."""
    by_place: dict[Path, list[Document]] = {}
    unread: list[str] = []
    for path in sorted(p for p in folder.rglob("*") if p.suffix.lower() in _SUFFIXES and p.is_file()):
        documents = read_documents(path)
        wanted = [d for d in documents if d.kind in (Kind.PROBLEM, Kind.MAPPING)]
        unread += [] if wanted else [path.name]
        both = {d.kind for d in wanted} == {Kind.PROBLEM, Kind.MAPPING}
        by_place.setdefault(path if both else path.parent, []).extend(wanted)
    if unread:
        names = ", ".join(sorted(set(unread)))
        _log.warning("%s: %s not read, only problems and mappings are", folder, names)
    for place, documents in by_place.items():
        problems = [d for d in documents if d.kind is Kind.PROBLEM]
        mappings = [d for d in documents if d.kind is Kind.MAPPING]
        if not problems and not mappings:
            continue
        if len(problems) != 1 or len(mappings) != 1:
            raise UserError(
                f"expected one problem and its mapping, got {len(problems)} problems and {len(mappings)} mappings",
                where=str(place),
                hint="put both into one file, or each pair into a folder of its own",
            )
        yield problems[0], mappings[0]
