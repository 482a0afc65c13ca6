"""The function that Python calls: arguments out of Python objects, the result into one.

Arrays are read where NumPy keeps them: data, number of axes, lengths, strides, element type and flags stand at
the head of every array object (`PyArrayObject_fields` in NumPy's headers, unchanged since NumPy 1.7; checked by
`codesign.core.compiler.machine` when it starts). An argument of another type than the version was made for gives
the object `mismatch` instead of a result, and Python looks for another version.
"""

import numpy as np

from codesign.core.compiler.builder import Builder
from codesign.core.compiler.memory import from_refs, load, passed, refs
from codesign.core.compiler.types import BOOL, FLOAT, INT, ITEMS, NONE, UINT, Array, Record, Scalar, Type, slots
from codesign.core.compiler.values import Block, Group, Memory, Number, Stored

DATA, AXES, SHAPE, STRIDES, DESCRIPTION, FLAGS = 16, 24, 32, 40, 56, 64
"""Places in an array object."""

TYPE_NUMBER = 28
"""Place of the number of the element type in an array's description."""

TUPLE_LENGTH, TUPLE_ITEMS = 16, tuple.__basicsize__
"""Places in a tuple object."""

TUPLE_FLAG = 1 << 26
"""`Py_TPFLAGS_TUPLE_SUBCLASS`."""

_DECLARATIONS = """\
@codesign_array_type = external global i8
@codesign_mismatch = external global i8
declare i64 @PyLong_AsLongLong(ptr)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare i64 @PyType_GetFlags(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @Py_BuildValue(ptr, ...)
declare void @Py_IncRef(ptr)
declare ptr @codesign_new_array(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
@nothing = internal constant [1 x i8] zeroinitializer
"""


class _Entry:
    def __init__(self) -> None:
        self.b = Builder()
        self.wrong = self.b.label()

    def _field(self, pointer: str, offset: int, llvm: str) -> str:
        return self.b.load(llvm, self.b.let(f"getelementptr i8, ptr {pointer}, i64 {offset}"))

    def _require(self, condition: str) -> None:
        further = self.b.label()
        self.b.branch(condition, further, self.wrong)
        self.b.begin(further)

    def taken(self, kind: Type, thing: str) -> Stored:
        """A value out of a Python object."""
        if isinstance(kind, Scalar):
            return self._number(kind, thing)
        return self._array(kind, thing) if isinstance(kind, Array) else self._tuple(kind, thing)

    def _number(self, kind: Scalar, thing: str) -> Number:
        b = self.b
        if kind is BOOL:
            truth = b.let(f"call i32 @PyObject_IsTrue(ptr {thing})")
            self._require(b.let(f"icmp sge i32 {truth}, 0"))
            return Number(BOOL, b.let(f"icmp ne i32 {truth}, 0"))
        if kind is FLOAT:
            ref = b.let(f"call double @PyFloat_AsDouble(ptr {thing})")
            suspect = b.let(f"fcmp oeq double {ref}, -1.0")
        else:
            sign = "Unsigned" if kind is UINT else ""
            ref = b.let(f"call i64 @PyLong_As{sign}LongLong(ptr {thing})")
            suspect = b.let(f"icmp eq i64 {ref}, -1")
        ask, further = b.label(), b.label()
        b.branch(suspect, ask, further)
        b.begin(ask)
        error = b.let("call ptr @PyErr_Occurred()")
        self._require(b.let(f"icmp eq ptr {error}, null"))
        b.begin(further)
        return Number(kind, ref)

    def _array(self, kind: Array, thing: str) -> Block:
        b = self.b
        cls = self._field(thing, 8, "ptr")
        self._require(b.let(f"icmp eq ptr {cls}, @codesign_array_type"))
        self._require(b.let(f"icmp eq i32 {self._field(thing, AXES, 'i32')}, {kind.ndim}"))
        number = self._field(self._field(thing, DESCRIPTION, "ptr"), TYPE_NUMBER, "i32")
        self._require(b.let(f"icmp eq i32 {number}, {np.dtype(kind.item).num}"))
        if kind.contiguous:
            flags = b.let(f"and i32 {self._field(thing, FLAGS, 'i32')}, 1")
            self._require(b.let(f"icmp ne i32 {flags}, 0"))
        lengths = self._field(thing, SHAPE, "ptr")
        shape = tuple(self._field(lengths, 8 * k, "i64") for k in range(kind.ndim))
        if kind.contiguous:
            return Block(kind, self._field(thing, DATA, "ptr"), shape)
        steps = self._field(thing, STRIDES, "ptr")
        strides = tuple(self._field(steps, 8 * k, "i64") for k in range(kind.ndim))
        return Block(kind, self._field(thing, DATA, "ptr"), shape, strides)

    def _tuple(self, kind: Record, thing: str) -> Group:
        b = self.b
        flags = b.let(f"call i64 @PyType_GetFlags(ptr {self._field(thing, 8, 'ptr')})")
        is_tuple = b.let(f"and i64 {flags}, {TUPLE_FLAG}")
        self._require(b.let(f"icmp ne i64 {is_tuple}, 0"))
        self._require(b.let(f"icmp eq i64 {self._field(thing, TUPLE_LENGTH, 'i64')}, {len(kind.items)}"))
        items = []
        for k, item in enumerate(kind.items):
            items.append(self.taken(item, self._field(thing, TUPLE_ITEMS + 8 * k, "ptr")))
        return Group(kind, tuple(items))

    def given(self, value: Stored) -> str:
        """A Python object with a value."""
        b = self.b
        if isinstance(value, Number):
            if value.type is BOOL:
                return b.let(f"call ptr @PyBool_FromLong(i64 {b.cast(value, INT).ref})")
            if value.type is FLOAT:
                return b.let(f"call ptr @PyFloat_FromDouble(double {value.ref})")
            sign = "Unsigned" if value.type is UINT else ""
            return b.let(f"call ptr @PyLong_From{sign}LongLong(i64 {value.ref})")
        if isinstance(value, Block):
            return self._new_array(value)
        if isinstance(value, Memory):
            value = from_refs(value.type, iter(list(refs(b, value))))
        assert isinstance(value, Group)
        made = b.let(f"call ptr @PyTuple_New(i64 {len(value.items)})")
        for k, item in enumerate(value.items):
            b.let(f"call i32 @PyTuple_SetItem(ptr {made}, i64 {k}, ptr {self.given(item)})")
        return made

    def _new_array(self, block: Block) -> str:
        b = self.b
        lengths = b.stack("i64", max(1, block.type.ndim))
        size = str(ITEMS[block.type.item].bytes)
        for k, length in enumerate(block.shape):
            b.store("i64", length, b.slot(lengths, k))
            size = b.let(f"mul i64 {size}, {length}")
        made = b.let(
            f"call ptr @codesign_new_array(ptr @codesign_array_type, i32 {block.type.ndim}, ptr {lengths}, "
            f"i32 {np.dtype(block.type.item).num}, ptr null, ptr null, i32 0, i32 0, ptr null)"
        )
        data = self._field(made, DATA, "ptr")
        b.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {data}, ptr {block.data}, i64 {size}, i1 false)")
        return made


def entry_text(symbol: str, main: str, kinds: tuple[Type, ...], result: Type) -> str:
    """The text of the function `symbol` that unpacks its arguments and calls `main`."""
    e = _Entry()
    b = e.b
    e._require(b.let(f"icmp eq i64 %count, {len(kinds)}"))
    texts = ["ptr %arena"]
    pointer = ""
    if not isinstance(result, Scalar):
        pointer = b.stack("i64", max(1, slots(result)))
        texts.append(f"ptr {pointer}")
    for k, kind in enumerate(kinds):
        value = e.taken(kind, b.load("ptr", b.let(f"getelementptr ptr, ptr %arguments, i64 {k}")))
        texts += passed(b, value)
    thread = b.let("call ptr @PyEval_SaveThread()")
    call = f"@{main}({', '.join(texts)})"
    returned = "" if not isinstance(result, Scalar) or result is NONE else b.let(f"call {result.llvm} {call}")
    if not returned:
        b.do(f"call void {call}")
    b.do(f"call void @PyEval_RestoreThread(ptr {thread})")
    if result is NONE:
        thing = b.let("call ptr (ptr, ...) @Py_BuildValue(ptr @nothing)")
    else:
        thing = e.given(Number(result, returned) if isinstance(result, Scalar) else load(b, result, pointer))
    b.do("call void @arena_return(ptr %arena, ptr null, ptr null, ptr null)")
    b.leave(f"ret ptr {thing}")
    b.begin(e.wrong)
    b.do("call void @PyErr_Clear()")
    b.do("call void @Py_IncRef(ptr @codesign_mismatch)")
    b.leave("ret ptr @codesign_mismatch")
    head = (
        f"define ptr @{symbol}(ptr %self, ptr %arguments, i64 %count) {{\nentry:\n  %arena = alloca [3 x i64], align 16"
    )
    clear = "  store [3 x i64] zeroinitializer, ptr %arena"
    return "\n".join([_DECLARATIONS, head, *b.allocas, clear, *b.lines, "}"])
