"""What a check came to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What the check came to.

    Args:
        accepted: The mapping is optimal.
        reason: Why not, or how many claims were checked.
    """

    accepted: bool
    reason: str
