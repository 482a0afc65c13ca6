"""Certificates of even mappings with perfect factors under the default rules (docs/explanation/certificates.md)."""
