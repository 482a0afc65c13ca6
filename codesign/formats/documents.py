"""Which kind of document a file holds, told from its content: files may come in any order, several documents in one file.

Knows the shape of the project's own files and of those of Timeloop, ZigZag and MAESTRO; what is in them is
read by the layer a document belongs to.
"""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import yaml

from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import describe
from codesign.core.files import read_text, yaml_mistake
from codesign.formats.maestro.syntax import only_layer

_log = logging.getLogger(__name__)


class Kind(Enum):
    """What a document describes."""

    ARCHITECTURE = "architecture"
    PROBLEM = "problem"
    MAPPING = "mapping"
    CONSTRAINTS = "constraints"
    ENERGY = "energy table (ERT)"
    AREA = "area table (ART)"
    SPARSITY = "sparse optimizations"


class Dialect(Enum):
    """The tool in whose form a document is written."""

    OWN = "own"
    TIMELOOP = "timeloop"
    ZIGZAG = "zigzag"
    MAESTRO = "maestro"


@dataclass(frozen=True)
class Document:
    """One document of a file.

    Args:
        kind: What it describes.
        dialect: Whose form it has.
        value: What stands under its key, as plain values (MAESTRO: a `codesign.formats.maestro.syntax.Layer`).
        where: The file.
    """

    kind: Kind
    dialect: Dialect
    value: Any
    where: str


TAG = "!"
"""Key under which the loader keeps a YAML tag, e.g. ``{"!": "Component", "name": ...}``."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Safe YAML, with tags kept (Timeloop v0.4 marks its nodes by them) and repeated keys refused."""


def _construct_mapping(loader: Any, node: Any) -> dict[Any, Any]:
    seen = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        if not isinstance(key_node, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(None, None, "a key must be a name", key_node.start_mark)
        if key_node.value in seen:
            raise yaml.MarkedYAMLError(None, None, f"key {key_node.value!r} stands twice", key_node.start_mark)
        seen.add(key_node.value)
    loader.flatten_mapping(node)
    return dict(loader.construct_pairs(node, deep=True))


def _construct_tagged(loader: Any, suffix: str, node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {TAG: suffix, **_construct_mapping(loader, node)}
    if isinstance(node, yaml.SequenceNode):
        return {TAG: suffix, "nodes": loader.construct_sequence(node, deep=True)}
    return loader.construct_scalar(node) or {TAG: suffix}


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_Loader.add_multi_constructor("!", _construct_tagged)


def parse_yaml(text: str, where: str) -> list[Any]:
    """The values of the documents of a YAML (or JSON) text, empty ones left out.

    Raises:
        UserError: It is neither; the message gives line and column.
    """
    if "\x00" in text:
        raise UserError("expected a text file, got binary data", where=where)
    try:
        return [value for value in yaml.load_all(text, Loader=_Loader) if value is not None]
    except yaml.YAMLError as error:
        raise yaml_mistake(error, where) from None
    except (RecursionError, ValueError) as error:
        raise UserError(f"not valid YAML or JSON: {error}", where=where) from None


_MAESTRO = re.compile(r"^\s*(?:Network\s+\w+\s*\{|Dataflow\s*\{|Layer\s+\w+\s*\{)", re.MULTILINE)


def read_documents(path: str | Path) -> list[Document]:
    """The documents of one file.

    Raises:
        UserError: The file is missing, malformed, empty, or holds something unknown.
    """
    where = str(path)
    text = read_text(path)
    if _MAESTRO.search(text):
        layer = only_layer(text, where)
        problem = [Document(Kind.PROBLEM, Dialect.MAESTRO, layer, where)] if layer.dimensions else []
        return [*problem, *([Document(Kind.MAPPING, Dialect.MAESTRO, layer, where)] if layer.dataflow else [])]
    values = parse_yaml(text, where)
    if not values:
        raise UserError("the file is empty", where=where)
    return [document for value in values for document in recognise(value, where)]


def read_all_documents(paths: Iterable[str | Path]) -> list[Document]:
    """The documents of several files, in the order given."""
    return [document for path in paths for document in read_documents(path)]


_UNUSED_SECTIONS = {"mapper", "compound_components", "components", "variables", "globals", "model"}
"""Sections of Timeloop's files that change nothing here (its mapper's options, its estimator's components)."""

_SECTIONS = {
    "architecture": Kind.ARCHITECTURE,
    "arch": Kind.ARCHITECTURE,
    "problem": Kind.PROBLEM,
    "mapping": Kind.MAPPING,
    "constraints": Kind.CONSTRAINTS,
    "mapspace_constraints": Kind.CONSTRAINTS,
    "architecture_constraints": Kind.CONSTRAINTS,
    "mapspace": Kind.CONSTRAINTS,
    "ERT": Kind.ENERGY,
    "ART": Kind.AREA,
    "sparse_optimizations": Kind.SPARSITY,
}


def recognise(value: Any, where: str) -> list[Document]:
    """The documents in one value read from a file.

    Raises:
        UserError: A top-level key is unknown, or nothing known is there.
    """
    if isinstance(value, list):
        return [_recognise_list(value, where)]
    if not isinstance(value, dict):
        raise UserError(f"expected keys and values, got {describe(value)}", where=where)
    if "memories" in value or "operational_array" in value:
        return [Document(Kind.ARCHITECTURE, Dialect.ZIGZAG, value, where)]
    if "status" in value and "mapping" in value:  # what `codesign map --format json` prints
        if value["mapping"] is None:
            raise UserError(f"holds no mapping: its status is {value['status']!r}", where=where)
        return [Document(Kind.MAPPING, Dialect.OWN, value["mapping"], where)]
    documents = []
    for key, content in value.items():
        if key in _UNUSED_SECTIONS:
            _log.warning("%s: section `%s` changes nothing here and is left out", where, key)
            continue
        if key not in _SECTIONS:
            raise unknown_name("top-level key", str(key), [*_SECTIONS, *_UNUSED_SECTIONS], where=where)
        kind = _SECTIONS[key]
        if key == "arch" and isinstance(content, dict) and "levels" in content and not set(content) & _TIMELOOPS_PARTS:
            raise UserError("`arch` is Timeloop's key; levels of your own stand under `architecture`", where=where)
        documents.append(Document(kind, _dialect(kind, key, content), content, where))
    return documents


def _recognise_list(value: list[Any], where: str) -> Document:
    first = value[0] if value and isinstance(value[0], dict) else {}
    if "spatial_mapping" in first or "memory_operand_links" in first or "temporal_ordering" in first:
        return Document(Kind.CONSTRAINTS, Dialect.ZIGZAG, value, where)
    if "equation" in first or "loop_dims" in first:
        return Document(Kind.PROBLEM, Dialect.ZIGZAG, value, where)
    if {"store", "for", "parallel", "layout"} & set(first):
        return Document(Kind.MAPPING, Dialect.OWN, value, where)
    if "target" in first:
        return Document(Kind.MAPPING, Dialect.TIMELOOP, value, where)
    raise UserError(
        f"expected one of the keys {', '.join(_SECTIONS)} at the top, got a list of {len(value)}", where=where
    )


_TIMELOOPS_PARTS = frozenset({"arithmetic", "storage", "subtree", "nodes", "local"})
"""Keys of an architecture in Timeloop's forms."""


def _dialect(kind: Kind, key: str, content: Any) -> Dialect:
    if kind in (Kind.ENERGY, Kind.AREA) or key in ("arch", "mapspace"):
        return Dialect.TIMELOOP
    if kind is Kind.ARCHITECTURE:
        own = isinstance(content, dict) and not set(content) & _TIMELOOPS_PARTS
        return Dialect.OWN if own else Dialect.TIMELOOP
    if kind is Kind.PROBLEM:
        return Dialect.TIMELOOP if isinstance(content, dict) and "shape" in content else Dialect.OWN
    entries = content if isinstance(content, list) else []
    if isinstance(content, dict):
        if set(content) & {"targets", "nodes", "version"}:
            return Dialect.TIMELOOP
        entries = content.get("levels", [])
    if kind is Kind.CONSTRAINTS and key != "constraints":
        return Dialect.TIMELOOP
    first = entries[0] if isinstance(entries, list) and entries and isinstance(entries[0], dict) else {}
    return Dialect.TIMELOOP if "target" in first or "type" in first else Dialect.OWN


def dump_yaml(value: Any, *, comment: str = "") -> str:
    """A value as YAML, innermost lists and mappings on one line, after a comment line if one is given."""
    text: str = yaml.safe_dump(_tidy(value), sort_keys=False, default_flow_style=None, width=200, allow_unicode=True)
    return f"# {comment}\n{text}" if comment else text


def _tidy(value: Any) -> Any:
    """The value with whole numbers written without a fraction, and no aliases (`&id001`) for what occurs twice."""
    if isinstance(value, dict):
        return {key: _tidy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tidy(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
