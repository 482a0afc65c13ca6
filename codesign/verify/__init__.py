"""Checks certificates of optimality with code of its own; it imports nothing of the mappers (docs/explanation/uneven-mapping.md, Certificates)."""

from codesign.verify.certificate import CERTIFICATE, certificate, restored
from codesign.verify.checker import Verdict, verify

__all__ = ["CERTIFICATE", "Verdict", "certificate", "restored", "verify"]
