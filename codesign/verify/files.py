"""Certificates of every set of rules: as documents, restored, checked."""

import math
import time
from typing import Any

from codesign.core.errors import UserError
from codesign.verify.certificate import RULES, Certificate
from codesign.verify.certificate import from_document as uneven_from_document
from codesign.verify.certificate import to_document as uneven_to_document
from codesign.verify.checker import verify_uneven
from codesign.verify.even.check import verify_even
from codesign.verify.even.claims import EVEN_RULES, EvenCertificate
from codesign.verify.even.claims import from_document as even_from_document
from codesign.verify.even.claims import to_document as even_to_document
from codesign.verify.verdict import Verdict

CERTIFICATE = "codesign certificate 1"


def certificate(given: Certificate | EvenCertificate) -> dict[str, Any]:
    """As a document of lists, numbers and text."""
    if isinstance(given, EvenCertificate):
        return even_to_document(given, CERTIFICATE)
    return uneven_to_document(given, CERTIFICATE)


def restored(document: dict[str, Any]) -> Certificate | EvenCertificate:
    """The certificate of a document.

    Raises:
        UserError: It is not one, or a part is missing or of the wrong kind.
    """
    if document.get("format") != CERTIFICATE:
        raise UserError(f"not a certificate: expected format '{CERTIFICATE}', got {document.get('format')!r}")
    if document.get("rules") not in (RULES, EVEN_RULES):
        raise UserError(f"rules {document.get('rules')!r} cannot be checked, only '{RULES}' and '{EVEN_RULES}'")
    try:
        return even_from_document(document) if document["rules"] == EVEN_RULES else uneven_from_document(document)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise UserError(f"the certificate is broken: {type(error).__name__} {error}") from error


def verify(given: Certificate | EvenCertificate, time_limit: float = math.inf) -> Verdict:
    """Check everything a certificate says; `time_limit` counts CPU seconds."""
    stop = time.process_time() + time_limit
    if isinstance(given, EvenCertificate):
        return verify_even(given, stop)
    return verify_uneven(given, stop)
