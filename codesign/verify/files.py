"""Certificates of every set of rules: as documents, restored, checked."""

import math
import time

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.verify.certificate import RULES, Certificate
from codesign.verify.certificate import from_document as uneven_from_document
from codesign.verify.certificate import to_document as uneven_to_document
from codesign.verify.checker import verify_uneven
from codesign.verify.even.check import verify_even
from codesign.verify.even.claims import EVEN_RULES, EvenCertificate
from codesign.verify.even.claims import from_document as even_from_document
from codesign.verify.even.claims import to_document as even_to_document
from codesign.verify.seal import SEAL, seal
from codesign.verify.shape import AGAIN, EVEN, UNEVEN, check_form
from codesign.verify.verdict import Verdict

CERTIFICATE = "codesign certificate 2"
"""Format and version; the second version has a seal."""


def certificate(given: Certificate | EvenCertificate) -> JsonObject:
    """As a sealed document of lists, numbers and text."""
    if isinstance(given, EvenCertificate):
        document = even_to_document(given, CERTIFICATE)
    else:
        document = uneven_to_document(given, CERTIFICATE)
    return {**document, SEAL: seal(document)}


def restored(document: dict[str, object]) -> Certificate | EvenCertificate:
    """The certificate of a document.

    Raises:
        UserError: It is not one, or a part is missing or of the wrong kind.
    """
    if document.get("format") != CERTIFICATE:
        raise UserError(
            f"not a certificate of this version: `format` must be '{CERTIFICATE}', got {document.get('format')!r}",
            hint=AGAIN,
        )
    if document.get("rules") not in (RULES, EVEN_RULES):
        raise UserError(f"rules {document.get('rules')!r} cannot be checked, only '{RULES}' and '{EVEN_RULES}'")
    even = document["rules"] == EVEN_RULES
    check_form(document, EVEN if even else UNEVEN)
    try:
        return even_from_document(document) if even else uneven_from_document(document)
    except UserError:
        raise
    except KeyError as error:
        raise UserError(f"the certificate is damaged: a part of it lacks {error}", hint=AGAIN) from None
    except OverflowError:
        raise UserError("the certificate is damaged: a number in it is beyond all measure", hint=AGAIN) from None
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise UserError(f"the certificate is damaged: {error}", hint=AGAIN) from None


def verify(given: Certificate | EvenCertificate, time_limit: float = math.inf) -> Verdict:
    """Check everything a certificate says; `time_limit` counts CPU seconds."""
    stop = time.process_time() + time_limit
    if isinstance(given, EvenCertificate):
        return verify_even(given, stop)
    return verify_uneven(given, stop)
