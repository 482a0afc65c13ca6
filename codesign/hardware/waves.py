"""Signals of a simulated machine, cycle by cycle, out of Verilator's value change dump."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Scope = tuple[str, ...]


@dataclass(frozen=True)
class Waves:
    """What was written down.

    Args:
        signals: By instance and signal, its code and bits.
        values: By code, the value in each cycle that was written down, in order.
    """

    signals: Mapping[Scope, Mapping[str, tuple[str, int]]]
    values: Mapping[str, Sequence[int]]

    def bits(self, scope: Scope, name: str) -> list[int]:
        """By bit of a signal, the lowest first, an integer whose bit k is its value in the k-th cycle."""
        code, width = self.signals[scope][name]
        values = self.values[code]
        raw = b"".join(v.to_bytes(-(-width // 8), "little") for v in values)
        table = np.unpackbits(np.frombuffer(raw, np.uint8).reshape(len(values), -1), axis=1, bitorder="little")
        packed = np.packbits(table[:, :width].T, axis=1, bitorder="little")
        return [int.from_bytes(row.tobytes(), "little") for row in packed]


def traced_only(text: str, wanted: Mapping[str, frozenset[str]]) -> str:
    """Verilog of which the simulator writes down, by module, the signals named alone.

    What a part gives while it is not enabled is undefined: a synthesis then leaves the condition out, and so does this text.
    """
    found = []
    for module in re.split(r"(?<=^endmodule)$", text.replace("if (enable)", "if (1'b1)"), flags=re.M):
        name = re.search(r"^module (\w+)", module, flags=re.M)
        keep = wanted.get(name.group(1), frozenset()) if name else frozenset()
        found.append(
            re.sub(r"^\s*(?:wire|reg) [^;\n]*;", lambda m, keep=keep: _declared(m.group(), keep), module, flags=re.M)
        )
    return "".join(found)


def _declared(line: str, keep: frozenset[str]) -> str:
    """A declaration, with the simulator told to leave it out unless its name is wanted."""
    name = re.sub(r"^\s*(?:wire|reg) (?:\[[^\]]*\] )?\\?", "", line).split(" ")[0].rstrip(";")
    return line if name in keep else f"/*verilator tracing_off*/{line}/*verilator tracing_on*/"


def read_waves(path: Path) -> Waves:
    """Read a dump; values before a signal's first change are 0."""
    signals: dict[Scope, dict[str, tuple[str, int]]] = {}
    with path.open("rt") as lines:
        at: list[str] = []
        for line in lines:
            words = line.split()
            if not words:
                continue
            if words[0] == "$scope":
                at.append(words[2])
            elif words[0] == "$upscope":
                at.pop()
            elif words[0] == "$var":
                signals.setdefault(tuple(at), {})[words[4]] = (words[3], int(words[2]))
            elif words[0] == "$enddefinitions":
                break
        values = _values(lines, {code for scope in signals.values() for code, _ in scope.values()})
    return Waves(signals, values)


def _values(lines: Iterator[str], codes: set[str]) -> dict[str, list[int]]:
    """By code, a value for every time."""
    changes: dict[str, list[tuple[int, int]]] = {code: [] for code in codes}
    time = -1
    for line in lines:
        first = line[0]
        if first == "#":
            time += 1
        elif first == "b":
            bits, code = line[1:].split()
            changes[code].append((time, int(bits, 2)))
        elif first in "01":
            changes[line[1:].strip()].append((time, int(first)))
    found = {}
    for code, told in changes.items():
        row: list[int] = []
        value = at = 0
        for when, new in told:
            row += [value] * (when - at)
            value, at = new, when
        found[code] = row + [value] * (time + 1 - at)
    return found
