"""The text of one function in LLVM's language, line by line."""

import struct

from codesign.core.compiler.types import BOOL, FLOAT, INT, ITEMS, UINT, CompileError, Scalar
from codesign.core.compiler.values import Number

ALIAS_KINDS = ("slot", *dict.fromkeys(item.alias for item in ITEMS.values()))
"""Kinds of memory that never overlap; their order numbers the nodes of the alias tree."""


def alias_nodes() -> str:
    """The alias tree of a module, as metadata."""
    lines = ['!0 = !{!"codesign"}']
    for k, name in enumerate(ALIAS_KINDS):
        lines.append(f'!{2 * k + 1} = !{{!"{name}", !0, i64 0}}')
        lines.append(f"!{2 * k + 2} = !{{!{2 * k + 1}, !{2 * k + 1}, i64 0}}")
    return "\n".join(lines)


def alias_tag(kind: str) -> str:
    """What a load or store of a kind of memory carries."""
    return f", !tbaa !{2 * ALIAS_KINDS.index(kind) + 2}"


def constant(value: int | float | bool, kind: Scalar | None = None) -> Number:
    """A number known while compiling."""
    kind = kind or (BOOL if isinstance(value, bool) else FLOAT if isinstance(value, float) else INT)
    if kind is FLOAT:
        bits = struct.unpack("<Q", struct.pack("<d", float(value)))[0]
        return Number(FLOAT, f"0x{bits:016X}", float(value))
    if kind is BOOL:
        return Number(BOOL, "true" if value else "false", int(bool(value)))
    word = int(value) % 2**64
    return Number(kind, str(word - 2**64 if word >= 2**63 else word), int(value))


class Builder:
    """Collects instructions, with fresh names for registers and labels.

    Attributes:
        allocas: Stack memory, made once at the head of the function.
        lines: The instructions.
        open: Whether the current block still lacks its last instruction.
        natural: Registers known not to be negative.
    """

    def __init__(self) -> None:
        self.allocas: list[str] = []
        self.lines: list[str] = []
        self.open = True
        self._count = 0
        self.natural: set[str] = set()

    def fresh(self) -> str:
        """A register name that is not in use yet."""
        self._count += 1
        return f"%v{self._count}"

    def label(self) -> str:
        """A block label that is not in use yet."""
        self._count += 1
        return f"b{self._count}"

    def do(self, line: str) -> None:
        """Add an instruction without a result."""
        self.lines.append("  " + line)

    def let(self, expression: str) -> str:
        """Add an instruction and name its result."""
        name = self.fresh()
        self.lines.append(f"  {name} = {expression}")
        return name

    def stack(self, llvm: str, words: int = 1) -> str:
        """Memory on the stack, made at the head of the function."""
        name = self.fresh()
        shape = llvm if words == 1 else f"[{words} x {llvm}]"
        self.allocas.append(f"  {name} = alloca {shape}, align 8")
        return name

    def begin(self, label: str) -> None:
        """Go on in a block, falling into it from the current one."""
        if self.open:
            self.jump(label)
        self.lines.append(f"{label}:")
        self.open = True

    def jump(self, label: str) -> None:
        """End the block with a jump."""
        self._end(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End the block with a choice."""
        self._end(f"br i1 {condition}, label %{yes}, label %{no}")

    def leave(self, instruction: str) -> None:
        """End the block with a return."""
        self._end(instruction)

    def _end(self, instruction: str) -> None:
        if not self.open:  # code after a return or break: a block that nothing reaches
            self.lines.append(f"{self.label()}:")
        self.do(instruction)
        self.open = False

    def alive(self) -> None:
        """Make sure that instructions go into a block, an unreachable one after a return."""
        if not self.open:
            self.begin(self.label())

    def load(self, llvm: str, pointer: str, kind: str | None = None) -> str:
        """Load a register; `kind` of memory unless it is a variable on the stack."""
        return self.let(f"load {llvm}, ptr {pointer}" + (alias_tag(kind) if kind else ""))

    def store(self, llvm: str, ref: str, pointer: str, kind: str | None = None) -> None:
        """Store a register."""
        self.do(f"store {llvm} {ref}, ptr {pointer}" + (alias_tag(kind) if kind else ""))

    def slot(self, pointer: str, index: int | str) -> str:
        """The address of a word of a record."""
        return self.let(f"getelementptr inbounds i64, ptr {pointer}, i64 {index}") if index != 0 else pointer

    def cast(self, value: Number, to: Scalar) -> Number:
        """A number as another type, as Python's own conversions make it.

        Raises:
            CompileError: A number would have to become a truth value, or the like.
        """
        if value.type is to:
            return value
        if value.literal is not None and to in (INT, UINT, FLOAT) and not (to is INT and value.type is FLOAT):
            return constant(value.literal, to)
        for source, target, how in _CASTS:
            if value.type is source and to is target:
                if how == "same":
                    return Number(to, value.ref)
                return Number(to, self.let(f"{how} {source.llvm} {value.ref} to {target.llvm}"))
        raise CompileError(f"a kernel cannot turn {value.type.name} into {to.name} here", hint="convert it explicitly")

    def truth(self, value: Number) -> str:
        """Whether a number is not zero."""
        if value.type is BOOL:
            return value.ref
        if value.type is FLOAT:
            return self.let(f"fcmp une double {value.ref}, 0.0")
        return self.let(f"icmp ne i64 {value.ref}, 0")


_CASTS = (
    (BOOL, INT, "zext"),
    (BOOL, UINT, "zext"),
    (BOOL, FLOAT, "uitofp"),
    (INT, FLOAT, "sitofp"),
    (UINT, FLOAT, "uitofp"),
    (INT, UINT, "same"),
    (UINT, INT, "same"),
    (FLOAT, INT, "fptosi"),
)
