"""The JSON schema of study files, written beside the code that reads them: `python -m experiments.study_schema`."""

import json
import types
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from codesign.core.field_texts import field_texts
from codesign.core.fields import is_needed
from codesign.core.files import write_atomic
from codesign.core.json_types import JsonObject
from codesign.core.specs import plain
from codesign.study.specification import SCHEMA_FILE, StudySpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def study_schema() -> JsonObject:
    """The schema of study files; descriptions are those of the docstrings."""
    return {"$schema": DIALECT, "title": "A study of codesign explore", **_object_schema(StudySpec)}


def _object_schema(kind: type[Any]) -> JsonObject:
    hints, texts = get_type_hints(kind), field_texts(kind)
    held = [item for item in fields(kind) if item.init]
    properties = {}
    for item in held:
        schema = _schema(hints[item.name])
        if item.name in texts:
            schema["description"] = texts[item.name]
        default = _default_of(item)
        if default is not None and default != []:
            schema["default"] = default
        schema |= dict(item.metadata)
        properties[item.name] = schema
    found: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    needed = [item.name for item in held if is_needed(item)]
    return {**found, "required": needed} if needed else found


def _schema(kind: Any) -> JsonObject:
    if is_dataclass(kind):
        return _object_schema(cast(type[Any], kind))
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        (inner,) = (k for k in get_args(kind) if k is not type(None))
        return {"anyOf": [_schema(inner), {"type": "null"}]}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(get_args(kind)[1])}
    if origin is tuple:
        inner = _schema(get_args(kind)[0])
        return {"anyOf": [{"type": "array", "items": inner}, inner]}
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    return {"type": {bool: "boolean", int: "integer", float: "number", str: "string"}[kind]}


def _default_of(item: Field[Any]) -> Any:
    if item.default_factory is not MISSING or item.default is MISSING:
        return None  # that of a nested specification is what its own fields say
    return plain(item.default)


if __name__ == "__main__":
    write_atomic(SCHEMA_FILE, json.dumps(study_schema(), indent=1) + "\n")
