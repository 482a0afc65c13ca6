"""Values in records and variables, and memory that a call of a kernel takes and gives back.

New arrays come from an arena, a chain of chunks that belongs to one call from Python. A kernel that returns no
array gives back what it took when it returns; what is left goes with the call.
"""

from collections.abc import Iterator

from codesign.core.compiler.builder import Builder, constant
from codesign.core.compiler.types import BOOL, FLOAT, INT, ITEMS, NONE, Array, CompileError, Record, Scalar, Type, slots
from codesign.core.compiler.values import Block, Elementwise, Group, Known, Memory, Number, Stored, Value

RUNTIME = """\
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @abort() noreturn
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @arena_take(ptr %arena, i64 %bytes) nounwind {
  %padded = add i64 %bytes, 63
  %size = and i64 %padded, -64
  %at = getelementptr i64, ptr %arena, i64 1
  %to = getelementptr i64, ptr %arena, i64 2
  %free = load ptr, ptr %at
  %end = load ptr, ptr %to
  %next = getelementptr i8, ptr %free, i64 %size
  %fits = icmp ule ptr %next, %end
  br i1 %fits, label %here, label %more
here:
  store ptr %next, ptr %at
  ret ptr %free
more:
  %grown = call ptr @arena_grow(ptr %arena, i64 %size)
  ret ptr %grown
}

define internal ptr @arena_grow(ptr %arena, i64 %size) noinline nounwind {
  %large = icmp ugt i64 %size, 65408
  %body = select i1 %large, i64 %size, i64 65408
  %total = add i64 %body, 128
  %chunk = call ptr @malloc(i64 %total)
  %none = icmp eq ptr %chunk, null
  br i1 %none, label %out, label %got
out:
  call void @abort()
  unreachable
got:
  %before = load ptr, ptr %arena
  store ptr %before, ptr %chunk
  store ptr %chunk, ptr %arena
  %address = ptrtoint ptr %chunk to i64
  %past = add i64 %address, 127
  %aligned = and i64 %past, -64
  %first = inttoptr i64 %aligned to ptr
  %next = getelementptr i8, ptr %first, i64 %size
  %end = getelementptr i8, ptr %chunk, i64 %total
  %at = getelementptr i64, ptr %arena, i64 1
  %to = getelementptr i64, ptr %arena, i64 2
  store ptr %next, ptr %at
  store ptr %end, ptr %to
  ret ptr %first
}

define internal void @arena_return(ptr %arena, ptr %chunk, ptr %free, ptr %end) noinline nounwind {
  br label %look
look:
  %now = load ptr, ptr %arena
  %done = icmp eq ptr %now, %chunk
  br i1 %done, label %out, label %drop
drop:
  %before = load ptr, ptr %now
  store ptr %before, ptr %arena
  call void @free(ptr %now)
  br label %look
out:
  %at = getelementptr i64, ptr %arena, i64 1
  %to = getelementptr i64, ptr %arena, i64 2
  store ptr %free, ptr %at
  store ptr %end, ptr %to
  ret void
}
"""


def take(b: Builder, item: str, shape: tuple[str, ...]) -> Block:
    """A new array without contents."""
    pointer = b.let(f"call ptr @arena_take(ptr %arena, i64 {bytes_of(b, item, shape)})")
    return Block(Array(item, len(shape)), pointer, shape)


def bytes_of(b: Builder, item: str, shape: tuple[str, ...]) -> str:
    """The size of a contiguous array."""
    size = constant(ITEMS[item].bytes).ref
    for length in shape:
        size = b.let(f"mul i64 {size}, {length}")
    return size


def type_of_value(value: Value) -> Type:
    """The type that a variable needs to hold a value."""
    if isinstance(value, Elementwise):
        return Array(_item_of(value.item), len(value.shape))
    if isinstance(value, Known):
        raise CompileError(f"a kernel cannot keep {value.value!r} in a variable")
    return value.type


def _item_of(kind: Scalar) -> str:
    for name in ("float64", "int64", "uint64", "bool"):
        if ITEMS[name].value is kind:
            return name
    raise CompileError(f"kernels have no arrays of {kind.name}")


def registers(kind: Type) -> Iterator[str]:
    """The register types that a value of a type is made of, nested tuples laid flat."""
    if isinstance(kind, Scalar):
        yield kind.llvm
    elif isinstance(kind, Array):
        yield "ptr"
        yield from ["i64"] * (slots(kind) - 1)
    else:
        for item in kind.items:
            yield from registers(item)


def refs(b: Builder, value: Stored) -> Iterator[str]:
    """The registers of a value, in the order of `registers`."""
    if isinstance(value, Number):
        yield value.ref
    elif isinstance(value, Block):
        yield value.data
        yield from value.shape
        yield from value.strides
    else:
        for item in items_of(b, value):
            yield from refs(b, item)


def from_refs(kind: Type, names: Iterator[str]) -> Stored:
    """A value from its registers."""
    if isinstance(kind, Scalar):
        return Number(kind, next(names))
    if isinstance(kind, Array):
        data = next(names)
        shape = tuple(next(names) for _ in range(kind.ndim))
        strides = () if kind.contiguous else tuple(next(names) for _ in range(kind.ndim))
        return Block(kind, data, shape, strides)
    return Group(kind, tuple(from_refs(item, names) for item in kind.items))


def items_of(b: Builder, value: Group | Memory) -> tuple[Stored, ...]:
    """The items of a tuple."""
    if isinstance(value, Group):
        return value.items
    return tuple(item_of(b, value, k) for k in range(len(value.type.items)))


def item_of(b: Builder, value: Group | Memory, k: int) -> Stored:
    """One item of a tuple."""
    if isinstance(value, Group):
        return value.items[k]
    kinds = value.type.items
    return load(b, kinds[k], b.slot(value.pointer, sum(slots(kind) for kind in kinds[:k])))


def load(b: Builder, kind: Type, pointer: str) -> Stored:
    """A value from the words of a record; a tuple stays where it is."""
    if isinstance(kind, Record):
        return Memory(kind, pointer)
    if kind is BOOL:
        word = b.load("i64", pointer, "slot")
        return Number(BOOL, b.let(f"icmp ne i64 {word}, 0"))
    names = [b.load(llvm, b.slot(pointer, k), "slot") for k, llvm in enumerate(registers(kind))]
    return from_refs(kind, iter(names))


def store(b: Builder, value: Stored, pointer: str) -> None:
    """Write a value into the words of a record."""
    if isinstance(value, Group | Memory):
        at = 0
        for item in items_of(b, value):
            store(b, item, b.slot(pointer, at))
            at += slots(item.type)
    elif value.type is BOOL:
        b.store("i64", b.cast(value, INT).ref, pointer, "slot")
    else:
        for k, (llvm, ref) in enumerate(zip(registers(value.type), refs(b, value), strict=True)):
            b.store(llvm, ref, b.slot(pointer, k), "slot")


def in_memory(b: Builder, value: Group | Memory) -> str:
    """A pointer to a tuple's words."""
    if isinstance(value, Memory):
        return value.pointer
    pointer = b.stack("i64", max(1, slots(value.type)))
    store(b, value, pointer)
    return pointer


def passed(b: Builder, value: Stored) -> list[str]:
    """A value as arguments of a call: a tuple by the address of its words, anything else in registers."""
    if isinstance(value, Group | Memory):
        return [f"ptr {in_memory(b, value)}"]
    return [f"{llvm} {ref}" for llvm, ref in zip(registers(value.type), refs(b, value), strict=True)]


def coerce(b: Builder, value: Stored, kind: Type) -> Stored:
    """A value as a type that `join` made of its own."""
    if value.type == kind:
        return value
    if isinstance(value, Number) and isinstance(kind, Scalar) and kind is not NONE:
        if value.type is FLOAT and kind is not FLOAT:
            raise CompileError("a kernel would cut a float to an integer", hint="write int(...)")
        return b.cast(value, kind)
    if isinstance(value, Block) and isinstance(kind, Array) and not kind.contiguous:
        return Block(kind, value.data, value.shape, strides_of(b, value))
    if isinstance(value, Group | Memory) and isinstance(kind, Record):
        parts = zip(items_of(b, value), kind.items, strict=True)
        return Group(kind, tuple(coerce(b, item, to) for item, to in parts))
    raise CompileError(f"a kernel gives a variable values of different types: {value.type} and {kind}")


def strides_of(b: Builder, block: Block) -> tuple[str, ...]:
    """Strides in bytes of every axis of an array."""
    if block.strides:
        return block.strides
    strides = [str(ITEMS[block.type.item].bytes)]
    for length in reversed(block.shape[1:]):
        strides.append(b.let(f"mul i64 {strides[-1]}, {length}"))
    return tuple(reversed(strides))
