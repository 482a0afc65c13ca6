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
from codesign.verify.even import claims as even
from codesign.verify.even.check import verify_even
from codesign.verify.even.claims import EvenCertificate
from codesign.verify.network import NETWORK_RULES, NetworkCertificate, verify_network
from codesign.verify.network import from_document as network_from_document
from codesign.verify.network import to_document as network_to_document
from codesign.verify.seal import SEAL, seal
from codesign.verify.shape import AGAIN, EVEN, IMPERFECT, NETWORK, PLACES, UNEVEN, Record, check_form
from codesign.verify.verdict import Verdict

CERTIFICATE = "codesign certificate 3"
"""Format and version; the third counts all offsets of an axis in rule K5."""

AnyCertificate = Certificate | EvenCertificate | NetworkCertificate
"""Of every set of rules."""

_KINDS: dict[str, tuple[Record, Callable[[dict[str, object]], AnyCertificate]]] = {
    RULES: (UNEVEN, uneven_from_document),
    even.EVEN_RULES: (EVEN, even.from_document),
    even.IMPERFECT_RULES: (IMPERFECT, even.from_document),
    even.PLACE_RULES: (PLACES, even.from_document),
    NETWORK_RULES: (NETWORK, network_from_document),
}
"""By set of rules the form of a document, and what reads it."""


def certificate(given: AnyCertificate) -> JsonObject:
    """As a sealed document of lists, numbers and text."""
    match given:
        case EvenCertificate():
            document = even.to_document(given, CERTIFICATE)
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
    if not isinstance(rules, str) or rules not in _KINDS:
        known = ", ".join(f"'{name}'" for name in _KINDS)
        raise UserError(f"`rules` {rules!r} cannot be checked, only {known}")
    form, read = _KINDS[rules]
    check_form(document, form)
    try:
        return read(document)
    except UserError:
        raise
    except KeyError as error:
        raise UserError(f"the certificate is damaged: a part of it lacks {error}", hint=AGAIN) from None
    except OverflowError:
        raise UserError("the certificate is damaged: a number in it is beyond all measure", hint=AGAIN) from None
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise UserError(f"the certificate is damaged: {error}", hint=AGAIN) from None


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
