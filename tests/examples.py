"""How many examples laws are tried on, and how large a case: a third or smaller by default, all with `CODESIGN_ALL_EXAMPLES`, as `make slow` sets."""

import os
from dataclasses import replace

from hypothesis import settings

from spaces.dosa import DOSA as WHOLE_DOSA
from spaces.parameters import Integer
from spaces.space import Space

ALL = bool(os.environ.get("CODESIGN_ALL_EXAMPLES"))


DOSA = replace(
    WHOLE_DOSA,
    space=WHOLE_DOSA.space
    if ALL
    else Space([Integer("pe", 1, 16), Integer("scratchpad_kib", 1, 64), Integer("accumulator_kib", 1, 32)]),
)
"""DOSA's space; a corner of it by default, for the bounds of boxes build every accumulator of the space."""


def examples(most: int) -> settings:
    """Settings of a law that takes long: so many examples, or a third."""
    return settings(max_examples=most if ALL else most // 3)
