"""`check_certificate`: whether a certificate of optimality holds."""

import json
import math
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from codesign.core.checks import check_positive
from codesign.core.errors import UserError
from codesign.study.front_check import FRONT, FrontDocument, check_front
from codesign.verify import Verdict, restored, verify
from codesign.verify.seal import broken_at, line_of
from codesign.verify.shape import AGAIN

_PLACE = re.compile(r"`([\w.\[\]]+)`")
"""How messages name a place of a document."""


def check_certificate(certificate: Mapping[str, Any] | str | Path, time_limit_s: float | None = None) -> Verdict:
    """Check a certificate with code that the search does not use.

    Args:
        certificate: What `MappedLayer.certificate` gives, or the file that `codesign map` or `codesign explore` wrote with --certificate.
        time_limit_s: CPU seconds after which the check gives up.

    Returns:
        Whether it is accepted, and why not.

    Raises:
        UserError: It is no certificate, or a damaged one; the message names the place.

    >>> import codesign
    >>> proof = codesign.map_layer("gemm M=16 N=16 K=16", "eyeriss").certificate()
    >>> check_certificate(proof).accepted
    True
    """
    check_positive(time_limit_s=time_limit_s)
    limit = math.inf if time_limit_s is None else time_limit_s
    if isinstance(certificate, Mapping):
        return _checked(dict(certificate), limit, None)
    if not Path(certificate).is_file():
        raise UserError(f"file '{certificate}' does not exist")
    text = ""
    try:
        text = _text(Path(certificate))
        return _checked(_parsed(text), limit, text)
    except UserError as error:
        place = _PLACE.search(error.message)
        line = "" if place is None else f"line {line_of(text, place.group(1))}: "
        raise UserError(line + error.message, where=error.where, hint=error.hint).within(str(certificate)) from None


def _checked(document: dict[str, object], limit: float, text: str | None) -> Verdict:
    """Check by arithmetic, then the seal; what is refused is named by its line where the text is known."""
    form = document.get("format")
    if isinstance(form, str) and form.startswith(FRONT.rstrip("0123456789")):
        if form != FRONT:
            raise UserError(
                f"not a certificate of this version: `format` must be '{FRONT}', got {form!r}",
                hint="make it again with `codesign explore --certificate`",
            )
        verdict = check_front(cast(FrontDocument, document), time.process_time() + limit)
    else:
        verdict = verify(restored(document), limit)
    place = broken_at(document)
    if place is None:
        named = None if verdict.accepted else _PLACE.search(verdict.reason)
        return verdict if named is None else Verdict(False, _line(text, named.group(1)) + verdict.reason)
    line = _line(text, place)
    more = "" if verdict.accepted else f"; {verdict.reason}"
    return Verdict(False, f"{line}`{place}` is not what the certificate was sealed with{more}")


def _line(text: str | None, place: str) -> str:
    return "" if text is None else f"line {line_of(text, place)}: "


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UserError(f"cannot read the certificate: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError("the file is no JSON: it is no text", hint=AGAIN) from None


def _parsed(text: str) -> dict[str, object]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise UserError(f"the file is no JSON at {place}", hint=AGAIN) from None
    except (ValueError, RecursionError):
        raise UserError("the file is no JSON of a certificate: nesting or digits without end", hint=AGAIN) from None
    if not isinstance(document, dict):
        raise UserError("the file is not a certificate: expected an object with keys", hint=AGAIN)
    return document
