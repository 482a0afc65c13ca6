"""The syntax of MAESTRO's files: networks, layers, dataflow directives. What they mean is read by the layers above."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from codesign.core.errors import UserError, unknown_name


@dataclass(frozen=True)
class Directive:
    """``TemporalMap(size, offset) dim``, ``SpatialMap(size, offset) dim`` or ``Cluster(size)``.

    Args:
        kind: TemporalMap, SpatialMap or Cluster.
        size: Terms of the sum that gives the size: integers and names of dimensions, ``Sz(dim)``, with their sign.
        offset: The same of the offset; empty for Cluster.
        dim: The dimension; empty for Cluster.
    """

    kind: str
    size: tuple[tuple[int, int | str], ...]
    offset: tuple[tuple[int, int | str], ...] = ()
    dim: str = ""


@dataclass(frozen=True)
class Layer:
    """One layer as written.

    Args:
        name: Its name; empty for a bare dataflow.
        kind: CONV, DSCONV ...; empty when not given.
        dimensions: Size by dimension.
        stride: Stride by input dimension.
        dataflow: The directives.
    """

    name: str = ""
    kind: str = ""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    stride: Mapping[str, int] = field(default_factory=dict)
    dataflow: tuple[Directive, ...] = ()


def evaluate(terms: tuple[tuple[int, int | str], ...], sizes: Mapping[str, int], where: str) -> int:
    """The value of a sum of integers and ``Sz(dim)``.

    Raises:
        UserError: A dimension has no size.
    """
    total = 0
    for sign, term in terms:
        if isinstance(term, str):
            if term not in sizes:
                raise unknown_name("dimension", term, sizes, where=where)
            total += sign * sizes[term]
        else:
            total += sign * term
    return total


_TOKEN = re.compile(r"\s*([A-Za-z_][\w']*|\d+|[{}():;,+-])")


class _Parser:
    """Recursive descent over the tokens of a file."""

    def __init__(self, text: str, where: str) -> None:
        self.where = where
        self.tokens: list[tuple[str, int]] = []
        plain = re.sub(r"//[^\n]*", "", text)
        position, end = 0, len(plain.rstrip())
        while position < end:
            match = _TOKEN.match(plain, position)
            if match is None:
                line = plain.count("\n", 0, position) + 1
                raise UserError(f"unexpected character {plain[position:].lstrip()[0]!r}", where=f"{where}, line {line}")
            self.tokens.append((match[1], plain.count("\n", 0, match.start(1)) + 1))
            position = match.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else "end of file"

    def error(self, expected: str) -> UserError:
        line = self.tokens[min(self.at, len(self.tokens) - 1)][1] if self.tokens else 1
        return UserError(f"expected {expected}, got {self.peek()!r}", where=f"{self.where}, line {line}")

    def take(self, what: str | None = None) -> str:
        token = self.peek()
        if self.at >= len(self.tokens) or (what is not None and token != what):
            raise self.error(f"{what!r}" if what else "more")
        self.at += 1
        return token

    def name(self) -> str:
        if not re.match(r"[A-Za-z_]", self.peek()) or self.at >= len(self.tokens):
            raise self.error("a name")
        return self.take()

    def integer(self) -> int:
        if not self.peek().isdigit():
            raise self.error("an integer")
        return int(self.take())

    def pairs(self) -> dict[str, int]:
        result = {}
        self.take("{")
        while self.peek() != "}":
            name = self.name()
            self.take(":")
            result[name] = self.integer()
            if self.peek() in (",", ";"):
                self.take()
        self.take("}")
        return result

    def terms(self) -> tuple[tuple[int, int | str], ...]:
        terms: list[tuple[int, int | str]] = []
        sign = 1
        while True:
            if self.peek() == "Sz":
                self.take()
                self.take("(")
                terms.append((sign, self.name()))
                self.take(")")
            else:
                terms.append((sign, self.integer()))
            if self.peek() not in ("+", "-"):
                return tuple(terms)
            sign = 1 if self.take() == "+" else -1

    def dataflow(self) -> tuple[Directive, ...]:
        directives = []
        self.take("{")
        while self.peek() != "}":
            kind = self.name()
            if kind not in ("TemporalMap", "SpatialMap", "Cluster"):
                self.at -= 1
                raise self.error("TemporalMap, SpatialMap or Cluster")
            self.take("(")
            size = self.terms()
            self.take(",")
            if kind == "Cluster":
                self.name()  # P or L: how a cluster is wired, which changes no count
                self.take(")")
                directives.append(Directive(kind, size))
            else:
                offset = self.terms()
                self.take(")")
                directives.append(Directive(kind, size, offset, self.name()))
            self.take(";")
        self.take("}")
        return tuple(directives)

    def layer(self) -> Layer:
        name = self.name()
        kind = ""
        dimensions: dict[str, int] = {}
        stride: dict[str, int] = {}
        dataflow: tuple[Directive, ...] = ()
        self.take("{")
        while self.peek() != "}":
            key = self.name()
            if key == "Type":
                self.take(":")
                kind = self.name()
                if self.peek() in (",", ";"):
                    self.take()
            elif key == "Dimensions":
                dimensions = self.pairs()
            elif key == "Stride":
                stride = self.pairs()
            elif key == "Dataflow":
                dataflow = self.dataflow()
            else:
                self.at -= 1
                raise self.error("Type, Stride, Dimensions or Dataflow")
        self.take("}")
        return Layer(name, kind, dimensions, stride, dataflow)


def parse_maestro(text: str, where: str) -> list[Layer]:
    """The layers of a file; a bare `Dataflow {...}` is a layer without a name.

    Raises:
        UserError: The syntax is broken; the message gives the line.
    """
    parser = _Parser(text, where)
    layers: list[Layer] = []
    while parser.at < len(parser.tokens):
        key = parser.name()
        if key == "Network":
            parser.name()
            parser.take("{")
            while parser.peek() != "}":
                parser.take("Layer")
                layers.append(parser.layer())
            parser.take("}")
        elif key == "Layer":
            layers.append(parser.layer())
        elif key == "Dataflow":
            layers.append(Layer(dataflow=parser.dataflow()))
        else:
            parser.at -= 1
            raise parser.error("Network, Layer or Dataflow")
    return layers


def only_layer(text: str, where: str) -> Layer:
    """The layer of a file with one.

    Raises:
        UserError: It holds none or several.
    """
    layers = parse_maestro(text, where)
    if len(layers) != 1:
        names = ", ".join(layer.name for layer in layers[:4])
        raise UserError(
            f"expected one layer, got {len(layers)} ({names} ...)",
            where=where,
            hint="put the layer into a file of its own",
        )
    return layers[0]
