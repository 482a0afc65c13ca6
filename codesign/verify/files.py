"""Certificates of every set of rules: as documents, restored, checked."""

import math
import time
from collections.abc import Callable

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.verify.certificate import RULES, Certificate
from codesign.verify.certificate import from_document as uneven_from_document
from codesign.verify.certificate import to_document as uneven_to_document
from codesign.verify.checker import verify_uneven
from codesign.verify.even.check import verify_even
from codesign.verify.even.claims import EVEN_RULES, IMPERFECT_RULES, PLACE_RULES, EvenCertificate
from codesign.verify.even.claims import from_document as even_from_document
from codesign.verify.even.claims import to_document as even_to_document
from codesign.verify.network import NETWORK_RULES, NetworkCertificate, verify_network
from codesign.verify.network import from_document as network_from_document
from codesign.verify.network import to_document as network_to_document
from codesign.verify.seal import SEAL, seal
from codesign.verify.shape import AGAIN, EVEN, IMPERFECT, NETWORK, PLACES, UNEVEN, check_form
from codesign.verify.verdict import Verdict

CERTIFICATE = "codesign certificate 3"
"""Format and version; the third counts all offsets of an axis in rule K5."""

AnyCertificate = Certificate | EvenCertificate | NetworkCertificate
"""Of every set of rules."""

_FORMS = {RULES: UNEVEN, EVEN_RULES: EVEN, IMPERFECT_RULES: IMPERFECT, PLACE_RULES: PLACES, NETWORK_RULES: NETWORK}


def certificate(given: AnyCertificate) -> JsonObject:
    """As a sealed document of lists, numbers and text."""
    match given:
        case EvenCertificate():
            document = even_to_document(given, CERTIFICATE)
        case NetworkCertificate():
            document = network_to_document(given, CERTIFICATE)
        case _:
            document = uneven_to_document(given, CERTIFICATE)
    return {**document, SEAL: seal(document)}


def restored(document: dict[str, object]) -> AnyCertificate:
    """The certificate of a document.

    Raises:
        UserError: It is not one, or a part is missing or of the wrong kind.
    """
    if document.get("format") != CERTIFICATE:
        raise UserError(
            f"not a certificate of this version: `format` must be '{CERTIFICATE}', got {document.get('format')!r}",
            hint=AGAIN,
        )
    rules = document.get("rules")
    if not isinstance(rules, str) or rules not in _FORMS:
        known = ", ".join(f"'{name}'" for name in _FORMS)
        raise UserError(f"`rules` {rules!r} cannot be checked, only {known}")
    check_form(document, _FORMS[rules])
    try:
        return _READERS[rules](document)
    except UserError:
        raise
    except KeyError as error:
        raise UserError(f"the certificate is damaged: a part of it lacks {error}", hint=AGAIN) from None
    except OverflowError:
        raise UserError("the certificate is damaged: a number in it is beyond all measure", hint=AGAIN) from None
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise UserError(f"the certificate is damaged: {error}", hint=AGAIN) from None


_READERS: dict[str, Callable[[dict[str, object]], AnyCertificate]] = {
    RULES: uneven_from_document,
    EVEN_RULES: even_from_document,
    IMPERFECT_RULES: even_from_document,
    PLACE_RULES: even_from_document,
    NETWORK_RULES: network_from_document,
}


def verify(given: AnyCertificate, time_limit: float = math.inf) -> Verdict:
    """Check everything a certificate says; `time_limit` counts CPU seconds."""
    stop = time.process_time() + time_limit
    match given:
        case EvenCertificate():
            return verify_even(given, stop)
        case NetworkCertificate():
            return verify_network(given, stop)
        case _:
            return verify_uneven(given, stop)
