"""One kernel for one list of argument types, as text for LLVM.

The function is translated again until the types of its variables hold still: a variable that starts as an integer
and becomes a float in a loop is a float from the second time on. Most functions need one or two rounds.
"""

import ast
from collections.abc import Callable, Iterator

from codesign.core.compiler import arrays
from codesign.core.compiler.builder import Builder, constant
from codesign.core.compiler.context import holds_array
from codesign.core.compiler.expressions import Expressions
from codesign.core.compiler.memory import (
    coerce,
    from_refs,
    items_of,
    registers,
    store,
)
from codesign.core.compiler.types import (
    INT,
    NONE,
    Array,
    CompileError,
    Record,
    Scalar,
    Type,
    describe,
    join,
)
from codesign.core.compiler.values import Block, Elementwise, Group, Known, Memory, Number, Stored, Value

ROUNDS = 8
"""Rounds after which types that do not hold still are a fault."""


class Translator(Expressions):
    """Translates one kernel; `run` gives the text and the type of the result."""

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
            self._end_with(None)

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

    def _end_with(self, node: ast.expr | None) -> None:
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

    # ---- statements

    def statement(self, node: ast.stmt) -> None:
        """Translate one statement."""
        self.b.alive()
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is None:
            raise CompileError(f"kernels have no {type(node).__name__}", where=self.source.line(node))
        try:
            handler(node)
        except CompileError as error:
            raise error if error.where else error.within(self.source.line(node)) from None

    def _body(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self.statement(node)

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self._assign_to(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
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

    def _augassign(self, node: ast.AugAssign) -> None:
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

    def _expr(self, node: ast.Expr) -> None:
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

    def _return(self, node: ast.Return) -> None:
        self._end_with(node.value)

    def _pass(self, node: ast.Pass) -> None:
        pass


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
