"""Certificates of uneven mappings under the default rules (rules UK1 to UK4 of docs/explanation/certificates.md)."""
