"""The options of `codesign map` that say how mappings are searched: those of the library, and the command's own."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from codesign.cli.options import Fields, Flag
from codesign.core.errors import UserError, unknown_name
from codesign.library.map_options import MapOptions

TIMELOOP, ZIGZAG, ACCELFORGE = "timeloop", "zigzag", "accelforge"

_FIELDS = Fields(
    MapOptions,
    flags={"time_limit_s": Flag("time-limit"), "trace": Flag(kind=Path)},
    left_out=("mapper", "mapper_options", "constraints", "between_layers"),
)
Search = Annotated[MapOptions, _FIELDS]


@dataclass(frozen=True)
class MapRules:
    """Which search, by whose rules.

    Args:
        mapper: How to search, default anneal (with --network: exact); an unknown name lists them.
        option: NAME=VALUE, an option of the mapper's own; may be repeated.
        semantics: What costs mean: timeloop, zigzag (ZigZag's files; mappers salsa, loma and exact) or accelforge
            (AccelForge's files; exact uneven mappings).
        certificate: Write what `codesign verify` needs to check the optimum to this file (--mapper exact); with
            --network of every layer.
    """

    mapper: str | None = None
    option: list[str] | None = None
    semantics: str = TIMELOOP
    certificate: Path | None = None

    def __post_init__(self) -> None:
        known = (TIMELOOP, ZIGZAG, ACCELFORGE)
        if self.semantics not in known:
            raise unknown_name("semantics", self.semantics, known)
        if self.certificate is not None and self.semantics == ZIGZAG:
            raise UserError("--certificate does not cover --semantics zigzag", hint="leave one of them out")

    def named(self, search: MapOptions, default: str) -> MapOptions:
        """How mappings are searched, by the mapper that is named.

        Args:
            search: How.
            default: Name of the mapper where none is given.

        Raises:
            UserError: The mapper has no such option, or plays no part with another option or the rules.
        """
        from codesign.library.other_rules import refuse_unread

        own = dict(_named_value(text) for text in self.option or ())
        with _FIELDS.spelt(semantics="semantics", mapper_options="option"):
            found = replace(search, mapper=self.mapper or default, mapper_options=own)
            if self.semantics != TIMELOOP:
                refuse_unread(found, self.semantics)
        return found


def _named_value(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UserError(f"--option must be NAME=VALUE, got {text!r}")
    try:
        return name.replace("-", "_"), json.loads(value)
    except json.JSONDecodeError:
        return name.replace("-", "_"), value
