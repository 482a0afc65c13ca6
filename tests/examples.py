"""How many examples laws are tried on, and how large a case: a third or smaller by default, all with `CODESIGN_ALL_EXAMPLES`, as `make slow` sets."""

import os

from hypothesis import settings

ALL = bool(os.environ.get("CODESIGN_ALL_EXAMPLES"))


def examples(most: int) -> settings:
    """Settings of a law that takes long: so many examples, or a third."""
    return settings(max_examples=most if ALL else most // 3)
