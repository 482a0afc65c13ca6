"""Certificates of even mappings with imperfect factors (rules J1 to J8 of docs/explanation/certificates.md)."""
