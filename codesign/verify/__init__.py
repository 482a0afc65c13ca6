"""Checks certificates of optimality with code of its own; it imports nothing of the mappers (docs/explanation/certificates.md)."""

from codesign.verify.files import CERTIFICATE, certificate, restored, verify
from codesign.verify.verdict import Verdict

__all__ = ["CERTIFICATE", "Verdict", "certificate", "restored", "verify"]
