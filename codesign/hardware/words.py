"""What a machine is told and what it answers, as numbers: addresses, words of its queues, commands, faults."""

from enum import IntEnum

# Regions above the plain registers; the low 12 bits are an index.
WINDOWS_A, WINDOWS_B, EMIT_AT, EMIT_WHO = 0x4000, 0x5000, 0x6000, 0x7000
PE_A, PE_B, PE_HEAD, COLUMN, ROW = 0x8000, 0x9000, 0xA000, 0xB000, 0xC000

PE_COLUMN_BITS = 6
"""A processing element is addressed as row << 6 | column."""

FIRST_BIT, SIGNAL_BIT, FENCE_BIT = 3, 8, 9
"""Bits of LAUNCH, beside the command or transfer in the lowest ones.

The first sums begin now. The completion counts, and the array also waits until its results are written. A DMA engine begins only when the
other one is at rest.
"""

EMIT_CYCLES = 4
"""From the issue of `go` to the first row's values: the scratchpad, the bus register, the operand registers, the product."""


class Opcode(IntEnum):
    """Addresses of a queue that are instructions."""

    END = 1
    LAUNCH = 2
    WAIT = 3
    WAIT_STORES = 4


class Command(IntEnum):
    """What the array is told."""

    FILL_A = 0
    FILL_B = 1
    PRELOAD = 2
    RUN = 3
    DRAIN = 4


class DmaCommand(IntEnum):
    """What a LAUNCH of the DMA queue moves."""

    LOAD = 0
    LOAD_RESULT = 1
    STORE = 2


class Fault(IntEnum):
    """Why a DMA engine has stopped."""

    NONE = 0
    ERROR = 1
    ORDER = 2  # in order: of another request than the oldest; by tag: of none that waits for one
    SILENCE = 3
    NOWHERE = 4
