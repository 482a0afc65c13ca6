"""What a search may choose beside the parameters of a space: precision, zeros of the workload, what hardware does about zeros (rules C1-C6).

The rules are in docs/reference/study-files.md.
"""

import csv
import io
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from codesign.arch.architecture import Architecture
from codesign.arch.operand_macs import Operand, OperandPair, mac_for
from codesign.arch.technology_files import load_technology
from codesign.arch.zero_support import ZeroSupport, knowing_zeros
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import read_structured
from codesign.core.json_types import JsonObject
from codesign.core.point import Point, PointValue
from codesign.evaluation.own_metrics import JudgedDesign, MetricFunction
from codesign.evaluation.specification import ChoicesSpec
from codesign.workloads.network import Network
from codesign.workloads.network_zeros import NetworkZeros, with_zeros
from codesign.workloads.precision import Precision, operand_widths, with_precision

PRECISION, ZEROS, ZERO_SUPPORT = "precision", "zeros", "zero_support"
ACCURACY, ERROR = "accuracy", "error"


@final
@dataclass(frozen=True)
class Chosen:
    """One combination.

    Args:
        precision: As written; None: operands are as wide as the space says.
        zeros: As written; None: none are known.
        support: What hardware does about zeros.
    """

    precision: str | None = None
    zeros: str | None = None
    support: ZeroSupport = ZeroSupport.NONE

    def network(self, network: Network) -> Network:
        """A network at the precision and with the zeros.

        Raises:
            UserError: They do not fit it.
        """
        if self.precision is not None:
            network = with_precision(network, Precision.parse(self.precision))
        return network if self.zeros is None else with_zeros(network, NetworkZeros.parse(self.zeros))


@final
@dataclass(frozen=True)
class AccuracyRow:
    """A line of a table of accuracies.

    Args:
        precision: The precision that the line speaks of; None for every one.
        zeros: The choice of zeros that the line speaks of; None for every one.
        value: Accuracy from 0 to 1, or an error.
    """

    precision: str | None
    zeros: str | None
    value: float

    def speaks_of(self, chosen: Chosen) -> bool:
        """Whether the line is about a combination."""
        return self.precision in (None, chosen.precision) and self.zeros in (None, chosen.zeros)


@final
@dataclass(frozen=True)
class AccuracyTable:
    """Accuracies that the user measured.

    Args:
        rows: The first that speaks of a combination counts.
        is_error: Whether values are errors, perplexities and so on: less is better.
    """

    rows: tuple[AccuracyRow, ...]
    is_error: bool

    def value(self, chosen: Chosen) -> float:
        """Of a combination.

        Raises:
            UserError: No line speaks of it.
        """
        for row in self.rows:
            if row.speaks_of(chosen):
                return row.value
        what = ", ".join(f"{n} {v}" for n, v in ((PRECISION, chosen.precision), (ZEROS, chosen.zeros)) if v is not None)
        raise UserError(f"the table has no line for {what}", hint="add one; a line without a column speaks of all")

    def metric(self, chosen: Chosen, *, error: bool) -> float:
        """Accuracy or error of a combination: what is not right is wrong."""
        value = self.value(chosen)
        return 1.0 - value if error and not self.is_error else value


@final
@dataclass(frozen=True)
class TableMetric:
    """Accuracy or error of a design, from the table.

    Args:
        choices: Say what a design chose.
        error: Whether the metric is the error.
    """

    choices: "Choices"
    error: bool

    @property
    def instead(self) -> str | None:
        """The metric to minimise in place of one that is better the greater it is."""
        return None if self.error else ERROR

    def __call__(self, design: JudgedDesign) -> float:
        """Accuracy or error of a design, looked up in the table of measurements."""
        table = self.choices.accuracy
        assert table is not None
        return table.metric(self.choices.of(design.point), error=self.error)


@final
@dataclass(frozen=True)
class Choices:
    """Choices with all they need to build designs. Plain data, so it can be sent to other processes.

    Args:
        precisions: As written, each with the operands that MACs are given; empty: as the space says.
        zeros: As written; empty: none are known.
        supports: What hardware may do about zeros.
        accuracy: Of precisions and zeros.
    """

    precisions: tuple[tuple[str, tuple[OperandPair, ...]], ...] = ()
    zeros: tuple[str, ...] = ()
    supports: tuple[ZeroSupport, ...] = ()
    accuracy: AccuracyTable | None = None

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """Labels of every choice by name; none where nothing is said."""
        return {
            PRECISION: tuple(name for name, _ in self.precisions),
            ZEROS: self.zeros,
            ZERO_SUPPORT: tuple(s.value for s in self.supports),
        }

    @property
    def parameters(self) -> dict[str, tuple[str, ...]]:
        """Labels of every choice with more than one: a parameter of the search (rule C1)."""
        return {name: labels for name, labels in self.values.items() if len(labels) > 1}

    @property
    def metrics(self) -> tuple[tuple[str, MetricFunction], ...]:
        """What the table adds to a design's metrics (rule C6)."""
        if self.accuracy is None:
            return ()
        error = (ERROR, TableMetric(self, error=True))
        return (error,) if self.accuracy.is_error else ((ACCURACY, TableMetric(self, error=False)), error)

    def of(self, point: Mapping[str, object]) -> Chosen:
        """Precision, zeros and support for zeros that a design chose."""
        labels = {name: str(point.get(name, labels[0])) for name, labels in self.values.items() if labels}
        support = ZeroSupport(labels.get(ZERO_SUPPORT, ZeroSupport.NONE.value))
        return Chosen(labels.get(PRECISION), labels.get(ZEROS), support)

    def combinations(self) -> Iterator[dict[str, str]]:
        """Every combination of the parameters that change the workload."""
        found = {n: labels for n, labels in self.parameters.items() if n != ZERO_SUPPORT}
        for values in itertools.product(*found.values()):
            yield dict(zip(found, values, strict=True))

    def without(self, point: Mapping[str, PointValue]) -> Point:
        """The parameters of a design that are the space's own."""
        return {name: value for name, value in point.items() if name not in self.parameters}

    def built(self, architecture: Architecture, point: Mapping[str, object]) -> Architecture:
        """The architecture of a design with MACs for its precision and units for zeros (rules C2 to C4).

        Raises:
            UserError: It names no technology, or one that lacks what is needed.
        """
        chosen = self.of(point)
        needed = chosen.precision is not None or chosen.support is not ZeroSupport.NONE
        if not needed:
            return architecture
        if architecture.technology is None:
            raise UserError(
                "a precision or support for zeros needs a technology to cost it",
                where=f"architecture {architecture.name!r}",
                hint="give `technology: cmos-22nm`",
            )
        technology = load_technology(architecture.technology)
        if chosen.precision is not None:
            pairs = dict(self.precisions)[chosen.precision]
            architecture = replace(architecture, mac=mac_for(technology, architecture.mac, pairs))
        return knowing_zeros(architecture, technology.arithmetic, chosen.support, self._places())

    def _places(self) -> dict[str, int | None]:
        """Kinds of tensors that some choice gives zeros, with the bits of a place (rule C4)."""
        found: dict[str, int | None] = {}
        for text in self.zeros:
            zeros = NetworkZeros.parse(text)
            for kind in zeros.kinds:
                bits = zeros.position_bits(kind)
                found[kind] = bits if kind not in found else None if None in (bits, found[kind]) else max(bits or 0, found[kind] or 0)  # fmt: skip
        return found

    # ---- records -------------------------------------------------------------------------------

    def to_json(self) -> JsonObject:
        """As a study records them; `from_json` gives them back."""
        value: JsonObject = {}
        if self.precisions:
            value["precision"] = {
                name: [[[o.bits, o.floating] for o in (p.wide, p.narrow)] for p in pairs]
                for name, pairs in self.precisions
            }
        if self.zeros:
            value["zeros"] = list(self.zeros)
        if self.supports:
            value["zero_support"] = [s.value for s in self.supports]
        if self.accuracy is not None:
            rows = [[r.precision, r.zeros, r.value] for r in self.accuracy.rows]
            value["accuracy"] = {"is_error": self.accuracy.is_error, "rows": rows}
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Choices":
        """The choices as the record of a study holds them."""
        precisions = tuple(
            (name, tuple(OperandPair(Operand(*wide), Operand(*narrow)) for wide, narrow in pairs))
            for name, pairs in value.get("precision", {}).items()
        )
        table = value.get("accuracy")
        accuracy = (
            None if table is None else AccuracyTable(tuple(AccuracyRow(*r) for r in table["rows"]), table["is_error"])
        )
        supports = tuple(ZeroSupport(s) for s in value.get("zero_support", ()))
        return cls(precisions, tuple(value.get("zeros", ())), supports, accuracy)


def choices_of(spec: ChoicesSpec, networks: Sequence[Network]) -> Choices:
    """The choices that a specification names, for a workload.

    Args:
        spec: What was asked for.
        networks: All that run, for the operands of their MACs.

    Raises:
        UserError: A value says nothing that is known or does not fit a network, or the table lacks a line.
    """
    supports = []
    for name in spec.zero_support:
        if name not in {s.value for s in ZeroSupport}:
            raise unknown_name("support for zeros", name, [s.value for s in ZeroSupport])
        supports.append(ZeroSupport(name))
    if any(s is not ZeroSupport.NONE for s in supports) and not any(NetworkZeros.parse(z).kinds for z in spec.zeros):
        raise UserError("support for zeros needs zeros", hint="say where they are, e.g. --zeros weight=2:4")
    precisions = tuple((text, _pairs(text, networks)) for text in spec.precision)
    for text in spec.zeros:
        for network in networks:
            with_zeros(network, NetworkZeros.parse(text))  # refuses a mistake
    accuracy = None if spec.accuracy is None else read_accuracy(Path(spec.accuracy))
    choices = Choices(precisions, spec.zeros, tuple(supports), accuracy)
    for point in choices.combinations():
        if accuracy is not None:
            try:
                accuracy.value(choices.of(point))
            except UserError as error:
                raise error.within(str(spec.accuracy)) from None
    return choices


def _pairs(text: str, networks: Iterable[Network]) -> tuple[OperandPair, ...]:
    precision = Precision.parse(text)
    found = set()
    for network in networks:
        with_precision(network, precision)  # refuses a pattern without operators
        for wide, narrow in operand_widths(network, precision):
            found.add(OperandPair.of(Operand(*wide), Operand(*narrow)))
    if not found:
        raise UserError(f"precision {text!r}: the workload has no products of two operands")
    return tuple(sorted(found, reverse=True))


def partial_bits(choices: Choices, chosen: Chosen, bits: int, partial: int) -> int:
    """Width of partial sums at a precision: as in the space, and wider as far as products are (rule C3)."""
    if chosen.precision is None:
        return partial
    pairs = dict(choices.precisions)[chosen.precision]
    product = max(sum(p.widths) for p in pairs)
    wider = partial + max(0, product - 2 * bits)
    return max(partial, min(32, wider)) if any(p.floating for p in pairs) else wider


# ---- tables of accuracies ------------------------------------------------------------------------------


def read_accuracy(path: Path) -> AccuracyTable:
    """The table of a CSV file, or of a YAML or JSON file (rule C6).

    Columns are ``precision``, ``zeros`` (either may be left out) and ``accuracy`` (0 to 1, or 76.1%) or ``error``. YAML holds a list of
    lines, or precisions with accuracies.

    Raises:
        UserError: The file cannot be read, or a line is malformed.
    """
    if path.suffix.lower() == ".csv":
        lines: list[Any] = _read_csv(path)
    else:
        raw = read_structured(path)
        if isinstance(raw, dict):
            raw = [{PRECISION: key, ACCURACY: value} for key, value in raw.items()]
        lines = raw if isinstance(raw, list) else []
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise UserError("expected lines with the columns precision, zeros, and accuracy or error", where=str(path))
    columns = [ACCURACY in line for line in lines]
    if any(columns) and not all(columns):
        raise UserError("every line must have the same column, accuracy or error", where=str(path))
    rows = tuple(_row(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1))
    return AccuracyTable(rows, is_error=not columns[0])


def _read_csv(path: Path) -> list[dict[str, str]]:
    try:
        text = path.read_text("utf-8-sig")  # spreadsheets write a byte-order mark
    except OSError as error:
        raise UserError(f"cannot read the table: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"expected UTF-8, got byte 0x{error.object[error.start]:02x} at {error.start}",
            where=str(path),
            hint="save the table as UTF-8",
        ) from None
    try:
        lines = list(csv.DictReader(io.StringIO(text), restkey="", restval=""))
    except csv.Error as error:
        raise UserError(f"no table of CSV: {error}", where=str(path)) from None
    for number, line in enumerate(lines, start=1):
        surplus: Any = line.get("")
        if surplus is not None:
            fields = ", ".join(map(repr, surplus)) if isinstance(surplus, list) else repr(surplus)
            raise UserError(
                f"expected {len(line) - 1} fields, one a named column, got more: {fields}",
                where=f"{path}, line {number}",
                hint="take away the comma at the end, or name the column",
            )
    return lines


def _row(line: Mapping[str, Any], where: str) -> AccuracyRow:
    for key in line:
        if key not in (PRECISION, ZEROS, ACCURACY, ERROR):
            raise unknown_name("column", str(key), [PRECISION, ZEROS, ACCURACY, ERROR], where=where)
    name = ACCURACY if ACCURACY in line else ERROR
    text = str(line.get(name, "")).strip()
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise UserError(f"`{name}` must be a number, got {text!r}", where=where) from None
    if not math.isfinite(value):
        raise UserError(f"`{name}` must be a finite number, got {text!r}", where=where)
    if name == ACCURACY and not 0.0 <= value <= 1.0:
        raise UserError(f"`{name}` must be from 0 to 1 or in %, got {text!r}", where=where)
    if name == ERROR and not value >= 0.0:
        raise UserError(f"`{name}` must be >= 0, got {text!r}", where=where)
    precision, zeros = (None if line.get(n) in (None, "") else str(line[n]).strip() for n in (PRECISION, ZEROS))
    return AccuracyRow(precision, zeros, value)
