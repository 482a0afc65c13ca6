"""What a check came to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What the check came to.

    Args:
        accepted: The mapping is optimal.
        reason: Why not, or how many claims were checked.
        claims: Checked, of a certificate that is accepted.
        walked: Of these, by walking nests.
    """

    accepted: bool
    reason: str
    claims: int = 0
    walked: int = 0
