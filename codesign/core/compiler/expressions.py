"""Variables and expressions of a kernel, as text for LLVM."""

import ast
from typing import cast

from codesign.core.compiler import arithmetic, arrays, calls
from codesign.core.compiler.builder import Builder, constant
from codesign.core.compiler.constants import from_python
from codesign.core.compiler.context import Versions
from codesign.core.compiler.memory import (
    coerce,
    from_refs,
    in_memory,
    item_of,
    items_of,
    load,
    refs,
    registers,
    type_of_value,
)
from codesign.core.compiler.source import Source
from codesign.core.compiler.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    CompileError,
    Record,
    Type,
    describe,
    join,
    slots,
)
from codesign.core.compiler.values import Block, Elementwise, Group, Known, Memory, Number, Stored, Value


class Expressions:
    """A kernel under translation: its variables, and what its expressions give; a node is translated by the method of its name.

    Args:
        unit: The module it goes into.
        source: The kernel.
        kinds: Types of its arguments.
        symbol: Its name in the module.
    """

    def __init__(self, unit: Versions, source: Source, kinds: tuple[Type, ...], symbol: str) -> None:
        self.unit = unit
        self.source = source
        self.kinds = kinds
        self.symbol = symbol
        self.b = Builder()
        self.types: dict[str, Type] = {}
        self.result: Type | None = source.declared if source.apart else None
        self.takes_memory = False
        self._places: dict[str, list[str]] = {}
        self._changed = False
        self._loops: list[tuple[str, str]] = []  # labels of the next turn and the way out
        self._left: set[str] = set()  # ways out that a break takes
        self._assigned = {
            n.id for n in ast.walk(source.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        self._arguments: dict[str, Stored] = {}

    # ---- variables

    def set(self, name: str, value: Value) -> None:
        """Assign to a variable."""
        if isinstance(value, Elementwise):
            value = self.made(value)
        if isinstance(value, Known):
            value = self.unit_value(value)
        assert not isinstance(value, Elementwise | Known)
        kind = type_of_value(value)
        known = self.types.get(name)
        joined = kind if known is None else join(known, kind)
        if joined is None:
            raise CompileError(f"variable {name!r} is {describe(kind)} here and {describe(known or kind)} elsewhere")
        if joined != known:
            self.types[name] = joined
            if name in self._places:
                self._changed = True
                del self._places[name]
        value = coerce(self.b, value, joined)
        for llvm, ref, place in zip(registers(joined), refs(self.b, value), self._place(name), strict=True):
            self.b.store(llvm, ref, place)

    def _place(self, name: str) -> list[str]:
        if name not in self._places:
            self._places[name] = [self.b.stack(llvm) for llvm in registers(self.types[name])]
        return self._places[name]

    def _read(self, name: str) -> Value:
        if name in self._arguments:
            return self._arguments[name]
        if name not in self._assigned:
            return self.unit_value(Known(self.source.lookup(name)))
        if name not in self.types:
            raise CompileError(f"variable {name!r} is read before it is set")
        kind = self.types[name]
        loads = [self.b.load(llvm, place) for llvm, place in zip(registers(kind), self._place(name), strict=True)]
        return from_refs(kind, iter(loads))

    def unit_value(self, known: Known) -> Value:
        """A known Python object as a value, if kernels have such values."""
        return from_python(self.unit, known.value)

    # ---- expressions

    def value(self, node: ast.expr) -> Value:
        """Translate an expression into a typed value."""
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is None:
            raise CompileError(f"kernels have no {type(node).__name__}", where=self.source.line(node))
        return cast(Value, handler(node))

    def stored(self, node: ast.expr, use: str) -> Stored:
        """Translate an expression into a value that can be kept; `use` says for what."""
        value = self.value(node)
        if isinstance(value, Known):
            raise CompileError(f"a kernel cannot {use} {value.value!r}")
        return self.made(value) if isinstance(value, Elementwise) else value

    def number_of(self, value: Value) -> Number:
        """A value that has to be a number."""
        if isinstance(value, Elementwise) and not value.shape:
            return value.at(())
        if isinstance(value, Block) and value.type.ndim == 0:
            return arrays.load_element(self.b, value.type.item, value.data)
        if not isinstance(value, Number) or value.type is NONE:
            raise CompileError("a kernel uses an array, a tuple or nothing where a number belongs")
        return value

    def number(self, node: ast.expr) -> Number:
        """Translate an expression that gives a number."""
        return self.number_of(self.value(node))

    def integer(self, node: ast.expr) -> Number:
        """Translate an expression that gives a whole number."""
        number = self.number(node)
        if number.type is FLOAT:
            raise CompileError(f"a kernel counts with a float: {ast.unparse(node)}", hint="write int(...)")
        return self.b.cast(number, INT)

    def made(self, value: Block | Elementwise) -> Block:
        """A new array with the elements of an expression."""
        self.takes_memory = True
        return arrays.made(self.b, value)

    def _constant(self, node: ast.Constant) -> Value:
        if node.value is None:
            return Number(NONE, "")
        if isinstance(node.value, bool | int | float):
            return constant(node.value)
        raise CompileError(f"kernels have no {type(node.value).__name__}")

    def _name(self, node: ast.Name) -> Value:
        return self._read(node.id)

    def _attribute(self, node: ast.Attribute) -> Value:
        base = self.value(node.value)
        if isinstance(base, Known):
            return self.unit_value(Known(getattr(base.value, node.attr)))
        if isinstance(base, Group | Memory):
            fields = getattr(base.type.cls, "_fields", ())
            if node.attr not in fields:
                raise CompileError(f"a tuple of a kernel has no field {node.attr!r}")
            return item_of(self.b, base, fields.index(node.attr))
        if isinstance(base, Block | Elementwise):
            return self._array_attribute(base, node.attr)
        raise CompileError(f"kernels have no attribute {node.attr!r} of numbers")

    def _array_attribute(self, base: Block | Elementwise, name: str) -> Value:
        if name == "shape":
            lengths = tuple(Number(INT, length) for length in base.shape)
            return Group(Record((INT,) * len(lengths)), lengths)
        if name == "ndim":
            return constant(len(base.shape))
        if name == "size":
            return arrays.size_of(self.b, base)
        if name == "T" and isinstance(base, Block) and base.type.ndim == 1:
            return base
        raise CompileError(f"kernels have no array attribute {name!r}")

    def _tuple(self, node: ast.Tuple) -> Group:
        items = [self.stored(element, "keep in a tuple") for element in node.elts]
        return Group(Record(tuple(item.type for item in items)), tuple(items))

    def _array_and_indices(self, node: ast.Subscript) -> tuple[Block, list[arrays.Index]]:
        return self._indexed(node, self.value(node.value))

    def _indexed(self, node: ast.Subscript, base: Value) -> tuple[Block, list[arrays.Index]]:
        """The array that is indexed, and the indices."""
        block = self.made(base) if isinstance(base, Elementwise) else base
        if not isinstance(block, Block):
            raise CompileError(f"a kernel indexes {ast.unparse(node.value)}, which is no array")
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return block, [self._index(part) for part in parts]

    def _index(self, node: ast.expr) -> arrays.Index:
        if not isinstance(node, ast.Slice):
            return self.number(node)
        if node.step is not None:
            raise CompileError("kernels slice without steps")
        lower = None if node.lower is None else self.integer(node.lower)
        return arrays.Span(lower, None if node.upper is None else self.integer(node.upper))

    def part(self, block: Block, indices: list[arrays.Index]) -> Number | Block:
        """An element of an array, or a view of several."""
        if len(indices) == block.type.ndim and all(isinstance(i, Number) for i in indices):
            return arrays.load_element(self.b, block.type.item, arrays.address_of(self.b, block, indices))
        return arrays.view(self.b, block, indices)

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self.value(node.value)
        if isinstance(base, Group | Memory):
            if isinstance(node.slice, ast.Slice):
                return self._some_items(base, node.slice)
            return self._item(base, self.number(node.slice))
        return self.part(*self._indexed(node, base))

    def _some_items(self, base: Group | Memory, part: ast.Slice) -> Group:
        """A tuple's items between bounds that are known."""
        bounds = [None if bound is None else self.integer(bound).literal for bound in (part.lower, part.upper)]
        items = items_of(self.b, base)[slice(*(None if bound is None else int(bound) for bound in bounds))]
        return Group(Record(tuple(item.type for item in items)), items)

    def _item(self, base: Group | Memory, index: Number) -> Stored:
        kinds = base.type.items
        if index.literal is not None:
            return item_of(self.b, base, int(index.literal) % len(kinds))
        if len(set(kinds)) != 1:
            raise CompileError("a kernel indexes a tuple of different things with a variable")
        pointer = in_memory(self.b, base)
        at = arithmetic.binary(self.b, ast.Mult(), self.b.cast(index, INT), constant(slots(kinds[0])))
        return load(self.b, kinds[0], self.b.let(f"getelementptr inbounds i64, ptr {pointer}, i64 {at.ref}"))

    def _binop(self, node: ast.BinOp) -> Value:
        return self._binary(node.op, self.value(node.left), self.value(node.right))

    def _binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        if isinstance(left, Number) and isinstance(right, Number):
            return arithmetic.binary(self.b, op, left, right)
        if isinstance(left, Number | Block | Elementwise) and isinstance(right, Number | Block | Elementwise):
            return arrays.combined(self.b, op, left, right)
        raise CompileError("kernels have no operators on tuples")

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return Number(BOOL, self.b.let(f"xor i1 {self.b.truth(self.number_of(value))}, true"))
        if isinstance(value, Block | Elementwise) and isinstance(node.op, ast.USub):
            return arrays.combined(self.b, ast.Sub(), constant(0), value)
        number = self.number_of(value)
        if isinstance(node.op, ast.USub):
            return arithmetic.negative(self.b, number)
        return arithmetic.inverted(self.b, number) if isinstance(node.op, ast.Invert) else number

    def _compare(self, node: ast.Compare) -> Value:
        if len(node.ops) == 1 and not isinstance(node.ops[0], ast.In | ast.NotIn):
            left, right = self.value(node.left), self.value(node.comparators[0])
            arrays_there = isinstance(left, Block | Elementwise) or isinstance(right, Block | Elementwise)
            if arrays_there and not isinstance(left, Known | Group | Memory | None):
                if isinstance(right, Known | Group | Memory):
                    raise CompileError("kernels compare arrays with arrays and numbers only")
                return arrays.combined(self.b, node.ops[0], left, right)
            return arithmetic.compare(self.b, node.ops[0], self.number_of(left), self.number_of(right))
        return self._decided(node)

    def _decided(self, node: ast.expr) -> Number:
        """A truth value found by the branches of `condition`."""
        place = self.b.stack("i1")
        yes, no, out = self.b.label(), self.b.label(), self.b.label()
        self.condition(node, yes, no)
        for label, ref in ((yes, "true"), (no, "false")):
            self.b.begin(label)
            self.b.store("i1", ref, place)
            self.b.jump(out)
        self.b.begin(out)
        return Number(BOOL, self.b.load("i1", place))

    def condition(self, node: ast.expr, yes: str, no: str) -> None:
        """Go to one of two labels, looking only at what decides."""
        b = self.b
        if isinstance(node, ast.BoolOp):
            for part in node.values[:-1]:
                further = b.label()
                self.condition(part, *((further, no) if isinstance(node.op, ast.And) else (yes, further)))
                b.begin(further)
            self.condition(node.values[-1], yes, no)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.condition(node.operand, no, yes)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            self._membership(node, yes, no)
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            left = self.number(node.left)
            for k, (op, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
                right = self.number(right_node)
                further = yes if k == len(node.ops) - 1 else b.label()
                b.branch(arithmetic.compare(b, op, left, right).ref, further, no)
                if further != yes:
                    b.begin(further)
                left = right
        else:
            b.branch(b.truth(self.number(node)), yes, no)

    def _membership(self, node: ast.Compare, yes: str, no: str) -> None:
        if isinstance(node.ops[0], ast.NotIn):
            yes, no = no, yes
        group, wanted = self.value(node.comparators[0]), self.number(node.left)
        if not isinstance(group, Group | Memory):
            raise CompileError("kernels look for a number in a tuple only")
        for item in items_of(self.b, group):
            further = self.b.label()
            self.b.branch(arithmetic.compare(self.b, ast.Eq(), wanted, self.number_of(item)).ref, yes, further)
            self.b.begin(further)
        self.b.jump(no)

    def _boolop(self, node: ast.BoolOp) -> Value:
        return self._decided(node)

    def _ifexp(self, node: ast.IfExp) -> Value:
        """Both sides leave their value on the stack as the type that holds either."""
        yes, no, out = self.b.label(), self.b.label(), self.b.label()
        self.condition(node.test, yes, no)
        values: list[Stored] = []
        ends = []
        for label, side in ((yes, node.body), (no, node.orelse)):
            self.b.begin(label)
            value = self.stored(side, "choose")
            end = self.b.label()
            self.b.begin(end)
            values.append(value)
            ends.append(end)
            self.b.open = False
        kind = join(values[0].type, values[1].type)
        if kind is None:
            raise CompileError(f"a kernel chooses between {values[0].type} and {values[1].type}")
        places = [self.b.stack(llvm) for llvm in registers(kind)]
        self._fill_choice(values, ends, places, kind, out)
        self.b.begin(out)
        loads = [self.b.load(llvm, place) for llvm, place in zip(registers(kind), places, strict=True)]
        return from_refs(kind, iter(loads))

    def _fill_choice(self, values: list[Stored], ends: list[str], places: list[str], kind: Type, out: str) -> None:
        lines = self.b.lines
        for value, end in zip(values, ends, strict=True):
            at = lines.index(f"{end}:") + 1
            self.b.lines, self.b.open = [], True
            final = coerce(self.b, value, kind)
            for llvm, ref, place in zip(registers(kind), refs(self.b, final), places, strict=True):
                self.b.store(llvm, ref, place)
            self.b.jump(out)
            lines[at:at] = self.b.lines
        self.b.lines, self.b.open = lines, False

    def _call(self, node: ast.Call) -> Value:
        return calls.call(self, node)
