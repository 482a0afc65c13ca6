"""How many examples laws are tried on: a third by default, all where `CODESIGN_ALL_EXAMPLES` is set, as `make slow` does."""

import os

from hypothesis import settings

ALL = bool(os.environ.get("CODESIGN_ALL_EXAMPLES"))


def examples(most: int) -> settings:
    """Settings of a law that takes long: so many examples, or a third."""
    return settings(max_examples=most if ALL else most // 3)
