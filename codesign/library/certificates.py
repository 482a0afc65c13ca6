"""`check_certificate`: whether a certificate of optimality holds."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codesign.core.errors import UserError
from codesign.verify import Verdict, restored, verify
from codesign.verify.shape import AGAIN


def check_certificate(certificate: Mapping[str, Any] | str | Path, time_limit_s: float | None = None) -> Verdict:
    """Check a certificate with code that the search does not use.

    Args:
        certificate: What `MappedLayer.certificate` gives, or the file that `codesign map --certificate` wrote.
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
    if time_limit_s is not None and not time_limit_s > 0:
        raise UserError(f"`time_limit_s` must be > 0, got {time_limit_s:g}")
    limit = math.inf if time_limit_s is None else time_limit_s
    if isinstance(certificate, Mapping):
        return verify(restored(dict(certificate)), limit)
    if not Path(certificate).is_file():
        raise UserError(f"file '{certificate}' does not exist")
    try:
        return verify(restored(_read(Path(certificate))), limit)
    except UserError as error:
        raise error.within(str(certificate)) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"cannot read the certificate: {error.strerror}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise UserError(f"the file is no JSON at {place}", hint=AGAIN) from None
    except UnicodeDecodeError:
        raise UserError("the file is no JSON: it is no text", hint=AGAIN) from None
    except (ValueError, RecursionError):
        raise UserError("the file is no JSON of a certificate: nesting or digits without end", hint=AGAIN) from None
    if not isinstance(document, dict):
        raise UserError("the file is not a certificate: expected an object with keys", hint=AGAIN)
    return document
