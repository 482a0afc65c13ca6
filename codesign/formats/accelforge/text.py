"""Templates of AccelForge's YAML."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from codesign.core.errors import UserError
from codesign.formats.documents import TAG, parse_yaml

Node = dict[str, Any]
"""A mapping with a tag, such as ``!Memory``, under the key `TAG`."""


def load(text: str, parameters: dict[str, object] | None = None, folders: Iterable[Path] = ()) -> Any:
    """Render a template and parse it.

    Args:
        text: YAML with Jinja.
        parameters: Values of the template's names.
        folders: Where included files are looked for, with everything below them.

    Raises:
        UserError: An included file is not there, an assertion of the template fails, or the YAML is broken.
    """
    included: list[Any] = []
    found = _parse(text, dict(parameters or {}), tuple(folders), included)
    return _merged(_resolved(found, included))


def _parse(text: str, parameters: dict[str, object], folders: tuple[Path, ...], included: list[Any]) -> Any:
    import jinja2

    def find(name: str) -> str:
        for folder in folders:
            for path in sorted(folder.rglob(Path(name).name)):
                return path.read_text()
        raise UserError(f"file '{name}' that the template includes was not found", where=", ".join(map(str, folders)))

    def include(name: str, key: str = "") -> str:
        included.append(_parse(find(name), parameters | exported(), folders, included))
        mark = f"included_{len(included) - 1}_mark"
        return f"{mark}.{key}" if key else mark

    def include_text(name: str) -> str:
        return _without_asserts(find(name))

    frame: dict[str, object] = {}

    def exported() -> dict[str, object]:
        return dict(frame)

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    environment.globals |= {
        "include": include,
        "include_text": include_text,
        "add_to_path": lambda *_: "",
        "range": range,
    }
    names = re.findall(r"{%-?\s*set\s+(\w+)\s*=", text)
    recorded = (
        re.sub(r"({%-?\s*set\s+(\w+)\s*=.*?%})", r"\1{{ _record('\2', \2) }}", _without_asserts(text))
        if names
        else _without_asserts(text)
    )

    def record(name: str, value: Any) -> str:
        frame[name] = value
        return ""

    environment.globals["_record"] = record
    try:
        rendered = environment.from_string(recorded).render(**parameters)
        if "{{" in rendered or "{%" in rendered:
            rendered = environment.from_string(rendered).render(**(parameters | frame))
    except jinja2.TemplateError as error:
        raise UserError(f"template: {error}", hint="give the parameters the file asks for") from error
    values = parse_yaml(rendered, "template")
    if len(values) > 1:
        raise UserError(f"one document is read, got {len(values)}", where="template", hint="give one file for each")
    return values[0] if values else None


def _without_asserts(text: str) -> str:
    return re.sub(r"{%-?\s*assert\b.*?%}", "", text, flags=re.S)


_MARK = re.compile(r"^included_(\d+)_mark((?:\.\w+)*)$")


def _resolved(value: Any, included: list[Any]) -> Any:
    if isinstance(value, str) and (match := _MARK.match(value.strip())):
        found = _resolved(included[int(match[1])], included)
        for key in filter(None, match[2].split(".")):
            found = found[key]
        return found
    if isinstance(value, dict):
        return {k: _resolved(v, included) for k, v in value.items()}
    if isinstance(value, list):
        return [_resolved(v, included) for v in value]
    return value


def _merged(value: Any) -> Any:
    """Mappings under the key ``<<<`` become part of the mapping they stand in."""
    if isinstance(value, dict):
        found: Node = {}
        for key, inner in value.items():
            if key == "<<<":
                for part in inner if isinstance(inner, list) else [inner]:
                    for name, content in _merged(part).items():
                        if name != TAG:
                            found.setdefault(name, content)
            else:
                found[key] = _merged(inner)
        return found
    return [_merged(v) for v in value] if isinstance(value, list) else value
