"""One kernel for one list of argument types, as text for LLVM.

The function is translated again until the types of its variables hold still: a variable that starts as an integer
and becomes a float in a loop is a float from the second time on. Most functions need one or two rounds.
"""

import ast
from collections.abc import Callable, Iterator

from codesign.core.compiler import arithmetic, arrays, calls
from codesign.core.compiler.builder import Builder, constant
from codesign.core.compiler.constants import from_python
from codesign.core.compiler.context import Versions, holds_array
from codesign.core.compiler.memory import (
    coerce,
    from_refs,
    in_memory,
    item_of,
    items_of,
    load,
    refs,
    registers,
    store,
    type_of_value,
)
from codesign.core.compiler.source import Source
from codesign.core.compiler.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    Array,
    CompileError,
    Record,
    Scalar,
    Type,
    describe,
    join,
    slots,
)
from codesign.core.compiler.values import Block, Elementwise, Group, Known, Memory, Number, Stored, Value

ROUNDS = 8
"""Rounds after which types that do not hold still are a fault."""


class Translator:
    """Translates one kernel; `run` gives the text and the type of the result."""

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

    def run(self) -> tuple[str, Type]:
        """The text of the function and the type of its result."""
        for _ in range(ROUNDS):
            before = self.result
            self._round()
            if not self._changed and self.result == before:
                return self._text(), self.result or NONE
        raise CompileError("the types of a kernel's variables do not settle", where=self.source.name)

    def _round(self) -> None:
        self.b = Builder()
        self._places, self._changed, self.takes_memory, self._left = {}, False, False, set()
        self._take_arguments()
        for statement in self.source.tree.body:
            self.statement(statement)
        if self.b.open:
            self._return(None)

    # ---- the frame

    def _take_arguments(self) -> None:
        for k, (name, kind) in enumerate(zip(self.source.parameters, self.kinds, strict=True)):
            value: Stored
            if isinstance(kind, Record):
                value = Memory(kind, f"%a{k}")
            else:
                value = from_refs(kind, iter([f"%a{k}.{i}" for i, _ in enumerate(registers(kind))]))
            if name in self._assigned:
                self.set(name, value)
            else:
                self._arguments[name] = value

    def _parameters(self) -> Iterator[str]:
        yield "ptr %arena"
        if isinstance(self.result, Array | Record):
            yield "ptr noalias %result"
        for k, kind in enumerate(self.kinds):
            if isinstance(kind, Record):
                yield f"ptr noalias readonly %a{k}"
            else:
                for i, llvm in enumerate(registers(kind)):
                    yield f"{llvm} %a{k}.{i}"

    def _text(self) -> str:
        result = self.result if isinstance(self.result, Scalar) else NONE
        flags = "alwaysinline nounwind" if self.source.inline else "nounwind"
        linkage = "internal"
        if self.source.apart:  # other modules call it
            linkage, flags = "", "noinline nounwind"
        head = f"define {linkage} {result.llvm} @{self.symbol}({', '.join(self._parameters())}) {flags} {{"
        keep = self.takes_memory and not holds_array(self.result)
        enter, lines = ([], self.b.lines) if not keep else (_MARK, [_released(line) for line in self.b.lines])
        return "\n".join([head, "entry:", *self.b.allocas, *enter, *lines, "}"])

    def _return(self, node: ast.expr | None) -> None:
        value = self.value(node) if node is not None else None
        if isinstance(value, Known):
            value = self.unit_value(value)
        if value is None or (isinstance(value, Number) and value.type is NONE):
            self._join_result(NONE)
            self.b.leave("ret void")
            return
        if isinstance(value, Elementwise) or (isinstance(value, Block) and not value.type.contiguous):
            value = self.made(value)
        assert not isinstance(value, Elementwise | Known)
        kind = self._join_result(value.type)
        value = coerce(self.b, value, kind)
        if isinstance(value, Number):
            self.b.leave(f"ret {value.type.llvm} {value.ref}")
        else:
            store(self.b, value, "%result")
            self.b.leave("ret void")

    def _join_result(self, kind: Type) -> Type:
        joined = kind if self.result is None else join(self.result, kind)
        if joined is None:
            raise CompileError(f"a kernel returns both {self.result} and {kind}", where=self.source.name)
        if self.source.apart and joined != self.source.declared:
            raise CompileError(f"a kernel apart declares {describe(self.source.declared)} and returns {describe(kind)}")
        self.result = joined
        return joined

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

    # ---- statements

    def statement(self, node: ast.stmt) -> None:
        """Translate one statement."""
        self.b.alive()
        handler = _STATEMENTS.get(type(node))
        if handler is None:
            raise CompileError(f"kernels have no {type(node).__name__}", where=self.source.line(node))
        try:
            handler(self, node)
        except CompileError as error:
            raise error if error.where else error.within(self.source.line(node)) from None

    def _body(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self.statement(node)

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self._assign_to(target, value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign_to(node.target, self.value(node.value))

    def _assign_to(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.set(target.id, value)
        elif isinstance(target, ast.Tuple):
            for part, item in zip(target.elts, self._unpacked(value, len(target.elts)), strict=True):
                self._assign_to(part, item)
        elif isinstance(target, ast.Subscript):
            self._set_part(target, value)
        else:
            raise CompileError(f"a kernel cannot assign to {ast.unparse(target)}")

    def _unpacked(self, value: Value, count: int) -> list[Stored]:
        if isinstance(value, Group | Memory):
            items = list(items_of(self.b, value))
        elif isinstance(value, Block):
            items = [self.part(value, [constant(k)]) for k in range(count)]
        else:
            raise CompileError("a kernel unpacks a single number")
        if len(items) != count:
            raise CompileError(f"a kernel unpacks {len(items)} values into {count} names")
        return items

    def _set_part(self, target: ast.Subscript, value: Value) -> None:
        block, indices = self._array_and_indices(target)
        if isinstance(value, Known | Group | Memory):
            raise CompileError("a kernel stores a tuple in an array")
        if len(indices) == block.type.ndim and all(isinstance(i, Number) for i in indices):
            number = self.number_of(value)
            arrays.store_element(self.b, block.type.item, number, arrays.address_of(self.b, block, indices))
        else:
            arrays.assign(self.b, arrays.view(self.b, block, indices), value)

    def _augmented(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            old = self._read(node.target.id)
            if isinstance(old, Block):
                name = node.target.id
                raise CompileError(
                    f"a kernel changes array {name!r} as a whole",
                    hint=f"write {name}[:] {_SIGNS.get(type(node.op), '+')}= ...",
                )
            self.set(node.target.id, self._binary(node.op, old, self.value(node.value)))
            return
        if not isinstance(node.target, ast.Subscript):
            raise CompileError(f"a kernel cannot assign to {ast.unparse(node.target)}")
        block, indices = self._array_and_indices(node.target)
        if len(indices) == block.type.ndim and all(isinstance(i, Number) for i in indices):
            address = arrays.address_of(self.b, block, indices)
            old = arrays.load_element(self.b, block.type.item, address)
            new = self.number_of(self._binary(node.op, old, self.value(node.value)))
            arrays.store_element(self.b, block.type.item, new, address)
        else:
            part = arrays.view(self.b, block, indices)
            right = self.value(node.value)
            if isinstance(right, Known | Group | Memory):
                raise CompileError("a kernel adds a tuple to an array")
            arrays.assign(self.b, part, arrays.combined(self.b, node.op, part, right))

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring is one
            self.value(node.value)

    def _if(self, node: ast.If) -> None:
        yes, no, out = self.b.label(), self.b.label(), self.b.label()
        self.condition(node.test, yes, no if node.orelse else out)
        self.b.begin(yes)
        self._body(node.body)
        if self.b.open:
            self.b.jump(out)
        if node.orelse:
            self.b.begin(no)
            self._body(node.orelse)
            if self.b.open:
                self.b.jump(out)
        self.b.begin(out)

    def _while(self, node: ast.While) -> None:
        head, inside, out = self.b.label(), self.b.label(), self.b.label()
        self.b.begin(head)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if endless:
            self.b.begin(inside)
        else:
            self.condition(node.test, inside, out)
            self.b.begin(inside)
        self._loops.append((head, out))
        self._body(node.body)
        self._loops.pop()
        if self.b.open:
            self.b.jump(head)
        if not endless or out in self._left:
            self.b.begin(out)

    def _for(self, node: ast.For) -> None:
        if isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range":
            bounds = [self.integer(argument) for argument in node.iter.args]
            first = bounds[0] if len(bounds) > 1 else constant(0)
            step = bounds[2] if len(bounds) == 3 else constant(1)
            self._count(node, first, bounds[1] if len(bounds) > 1 else bounds[0], step, lambda here: here)
            return
        value = self.value(node.iter)
        if isinstance(value, Group | Memory):
            items = constant(len(value.type.items))
            self._count(node, constant(0), items, constant(1), lambda here: self._item(value, here))
            return
        if not isinstance(value, Block):
            raise CompileError("a kernel loops over something other than a range or an array")
        length = Number(INT, value.shape[0])
        self._count(node, constant(0), length, constant(1), lambda here: self.part(value, [here]))

    def _count(self, node: ast.For, first: Number, past: Number, step: Number, item: Callable[[Number], Value]) -> None:
        b = self.b
        counter = b.stack("i64")
        head, inside, after, out = b.label(), b.label(), b.label(), b.label()
        b.store("i64", first.ref, counter)
        b.begin(head)
        here = b.load("i64", counter)
        if step.literal is None:
            up = b.let(f"icmp slt i64 {here}, {past.ref}")
            down = b.let(f"icmp sgt i64 {here}, {past.ref}")
            forward = b.let(f"icmp sgt i64 {step.ref}, 0")
            more = b.let(f"select i1 {forward}, i1 {up}, i1 {down}")
        else:
            more = b.let(f"icmp {'slt' if step.literal > 0 else 'sgt'} i64 {here}, {past.ref}")
        b.branch(more, inside, out)
        b.begin(inside)
        self._assign_to(node.target, item(Number(INT, here)))
        self._loops.append((after, out))
        self._body(node.body)
        self._loops.pop()
        b.begin(after)
        b.store("i64", b.let(f"add nsw i64 {here}, {step.ref}"), counter)
        b.jump(head)
        b.begin(out)

    def _break(self, node: ast.Break) -> None:
        self._left.add(self._loops[-1][1])
        self.b.jump(self._loops[-1][1])

    def _continue(self, node: ast.Continue) -> None:
        self.b.jump(self._loops[-1][0])

    def _return_statement(self, node: ast.Return) -> None:
        self._return(node.value)

    def _pass(self, node: ast.Pass) -> None:
        pass

    # ---- expressions

    def value(self, node: ast.expr) -> Value:
        """Translate an expression into a typed value."""
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            raise CompileError(f"kernels have no {type(node).__name__}", where=self.source.line(node))
        return handler(self, node)

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
        items = []
        for element in node.elts:
            value = self.value(element)
            value = self.made(value) if isinstance(value, Elementwise) else value
            if isinstance(value, Known):
                raise CompileError(f"a kernel cannot keep {value.value!r} in a tuple")
            items.append(value)
        return Group(Record(tuple(item.type for item in items)), tuple(items))

    def _array_and_indices(self, node: ast.Subscript) -> tuple[Block, list[arrays.Index]]:
        block = self.value(node.value)
        block = self.made(block) if isinstance(block, Elementwise) else block
        if not isinstance(block, Block):
            raise CompileError(f"a kernel indexes {ast.unparse(node.value)}, which is no array")
        return block, self._indices(node.slice)

    def _indices(self, node: ast.expr) -> list[arrays.Index]:
        if isinstance(node, ast.Tuple):
            return [self._index(part) for part in node.elts]
        return [self._index(node)]

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
        base = self.made(base) if isinstance(base, Elementwise) else base
        if not isinstance(base, Block):
            raise CompileError(f"a kernel indexes {ast.unparse(node.value)}, which is no array")
        return self.part(base, self._indices(node.slice))

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

    def _binary_node(self, node: ast.BinOp) -> Value:
        return self._binary(node.op, self.value(node.left), self.value(node.right))

    def _binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        if isinstance(left, Number) and isinstance(right, Number):
            return arithmetic.binary(self.b, op, left, right)
        if isinstance(left, Number | Block | Elementwise) and isinstance(right, Number | Block | Elementwise):
            return arrays.combined(self.b, op, left, right)
        raise CompileError("kernels have no operators on tuples")

    def _unary(self, node: ast.UnaryOp) -> Value:
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

    def _bool_op(self, node: ast.BoolOp) -> Value:
        return self._decided(node)

    def _if_expression(self, node: ast.IfExp) -> Value:
        """Both sides leave their value on the stack as the type that holds either."""
        yes, no, out = self.b.label(), self.b.label(), self.b.label()
        self.condition(node.test, yes, no)
        values: list[Stored] = []
        ends = []
        for label, side in ((yes, node.body), (no, node.orelse)):
            self.b.begin(label)
            value = self.value(side)
            value = self.made(value) if isinstance(value, Elementwise) else value
            if isinstance(value, Known):
                raise CompileError(f"a kernel cannot choose {value.value!r}")
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


_MARK = [
    "  %mark.at = getelementptr i64, ptr %arena, i64 1",
    "  %mark.to = getelementptr i64, ptr %arena, i64 2",
    "  %mark.chunk = load ptr, ptr %arena",
    "  %mark.free = load ptr, ptr %mark.at",
    "  %mark.end = load ptr, ptr %mark.to",
]

_GIVE_BACK = "  call void @arena_return(ptr %arena, ptr %mark.chunk, ptr %mark.free, ptr %mark.end)\n"


def _released(line: str) -> str:
    return _GIVE_BACK + line if line.startswith("  ret ") else line


_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}

_STATEMENTS: dict[type[ast.stmt], Callable[[Translator, ast.stmt], None]] = {
    ast.Assign: Translator._assign,  # type: ignore[dict-item]
    ast.AnnAssign: Translator._annotated,  # type: ignore[dict-item]
    ast.AugAssign: Translator._augmented,  # type: ignore[dict-item]
    ast.Expr: Translator._expression,  # type: ignore[dict-item]
    ast.If: Translator._if,  # type: ignore[dict-item]
    ast.While: Translator._while,  # type: ignore[dict-item]
    ast.For: Translator._for,  # type: ignore[dict-item]
    ast.Break: Translator._break,  # type: ignore[dict-item]
    ast.Continue: Translator._continue,  # type: ignore[dict-item]
    ast.Return: Translator._return_statement,  # type: ignore[dict-item]
    ast.Pass: Translator._pass,  # type: ignore[dict-item]
}

_EXPRESSIONS: dict[type[ast.expr], Callable[[Translator, ast.expr], Value]] = {
    ast.Constant: Translator._constant,  # type: ignore[dict-item]
    ast.Name: Translator._name,  # type: ignore[dict-item]
    ast.Attribute: Translator._attribute,  # type: ignore[dict-item]
    ast.Tuple: Translator._tuple,  # type: ignore[dict-item]
    ast.Subscript: Translator._subscript,  # type: ignore[dict-item]
    ast.BinOp: Translator._binary_node,  # type: ignore[dict-item]
    ast.UnaryOp: Translator._unary,  # type: ignore[dict-item]
    ast.Compare: Translator._compare,  # type: ignore[dict-item]
    ast.BoolOp: Translator._bool_op,  # type: ignore[dict-item]
    ast.IfExp: Translator._if_expression,  # type: ignore[dict-item]
    ast.Call: Translator._call,  # type: ignore[dict-item]
}
