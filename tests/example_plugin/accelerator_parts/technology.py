"""A technology: the built-in tables at another node."""

from dataclasses import replace

from codesign.arch.technology_files import load_technology

VARIANT = replace(load_technology("cmos-30nm"), name="cmos-30nm-variant")
