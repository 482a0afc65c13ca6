"""A generated program as pseudo-code: loops on the host, transfers to named addresses, intrinsic calls."""

from codesign.tensorization.program import Begin, Fetch, Finish, ForLoop, Program, TreeNode
from codesign.workloads.computation import Tensor


def pseudo_code(program: Program) -> str:
    """The loop tree as text a person can read; sizes are those of full tiles, ragged last tiles are clipped."""
    return "\n".join([*_header(program), *_Writer(program).lines(program.body)])


def _header(program: Program) -> list[str]:
    choice = program.schedule.choice
    lines = [
        f"# {choice.computation}  ({', '.join(f'{d}={b}' for d, b in choice.computation.sizes.items())})",
        f"# {choice.intrinsic.name} {choice.intrinsic.computation}  (size {choice.intrinsic.size_text}), {choice.match}",
    ]
    for memory in (region.memory for region in program.regions):
        lines.append(
            f"memory {memory.name}: {memory.capacity_bytes} bytes, {memory.banks} banks of {memory.bank_bytes}"
        )
    for buffer in program.buffers:
        extents = "x".join(str(n) for n in buffer.shape) or "1"
        lines.append(f"buffer {buffer.name:<4} @ {buffer.place:<24} {extents} elements of {buffer.element_bytes} bytes")
    return lines


class _Writer:
    """Keeps the innermost loop variable of each dimension while it walks the tree."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.choice = program.schedule.choice
        self.variable: dict[str, str] = {}
        self.used: dict[str, int] = {}
        self.host: list[str] = []

    def lines(self, nodes: tuple[TreeNode, ...], depth: int = 0) -> list[str]:
        found: list[str] = []
        indent = "  " * depth
        for node in nodes:
            if isinstance(node, ForLoop):
                found.extend(self._loop(node, depth))
            elif isinstance(node, Fetch):
                tensor = self.choice.computation.tensor(node.tensor)
                kept = "  # what the last part shares stays on chip" if _slides(tensor) else ""
                found.append(f"{indent}load  {self._buffer(tensor)} <- {self._part(tensor)}{kept}")
            elif isinstance(node, Begin):
                found.extend(indent + line for line in self._begin(node))
            elif isinstance(node, Finish):
                output = self.choice.computation.output
                found.append(f"{indent}store {self._buffer(output)} -> {self._part(output)}")
            else:
                found.append(indent + self._call())
        return found

    def _loop(self, node: ForLoop, depth: int) -> list[str]:
        number = self.used.get(node.dim, 0)
        name, outer = f"{node.dim}{number}", self.variable.get(node.dim)
        bound = self.choice.computation.sizes[node.dim]
        end = f"{bound}" if outer is None else f"min({outer}+{node.count * node.step}, {bound})"
        where = "on chip" if node.on_chip else "host"
        line = f"{'  ' * depth}for {name} in range({outer or 0}, {end}, {node.step}):  # {where}"
        self.used[node.dim], self.variable[node.dim] = number + 1, name
        self.host.append(name)
        body = self.lines(node.body, depth + 1)
        self.host.pop()
        self.used[node.dim] = number
        if outer is None:
            del self.variable[node.dim]
        else:
            self.variable[node.dim] = outer
        return [line, *body]

    def _begin(self, node: Begin) -> list[str]:
        output = self.choice.computation.output
        name = self._buffer(output)
        if not node.first:
            return [f"zero  {name}"]
        first = " and ".join(f"{self.host[i]} == {self._first_value(i)}" for i in node.first)
        return [f"zero  {name} if {first} else load {name} <- {self._part(output)}"]

    def _first_value(self, loop: int) -> str:
        """Where a host loop begins: the enclosing loop's variable of the same dimension, or 0."""
        dim = self.program.schedule.host[loop][0]
        outer = [i for i in range(loop) if self.program.schedule.host[i][0] == dim]
        return self.host[outer[-1]] if outer else "0"

    def _call(self) -> str:
        choice = self.choice
        parts = []
        for operand in choice.match.operands[:-1]:
            value = "1" if operand.tensor is None else self._block(choice.computation.tensor(operand.tensor))
            parts.append(f"{operand.intrinsic_tensor}={value}")
        scale = "".join(f" * {self._block(choice.computation.tensor(name))}" for name in choice.match.scalars)
        return f"{self._block(choice.computation.output)} += {choice.intrinsic.name}({', '.join(parts)}){scale}"

    def _buffer(self, tensor: Tensor) -> str:
        return self.program.buffer_of(tensor.name).name

    def _part(self, tensor: Tensor) -> str:
        """The tensor's part that its buffer holds: first position and extent on each axis."""
        shape = self.program.schedule.tile_shape(tensor)
        axes = (f"{self._start(terms.terms)}:+{n}" for terms, n in zip(tensor.axes, shape, strict=True))
        return f"{tensor.name}[{', '.join(axes)}]"

    def _block(self, tensor: Tensor) -> str:
        """The block of one call, in the tensor's own coordinates, read from its buffer."""
        tile = self.choice.tile
        axes = []
        for axis in tensor.axes:
            extent = axis.extent(tile)
            axes.append(self._start(axis.terms) + (f":+{extent}" if extent > 1 else ""))
        return f"{self._buffer(tensor)}({', '.join(axes)})"

    def _start(self, terms: tuple[tuple[str, int], ...]) -> str:
        parts = [(f"{c}*" if c > 1 else "") + self.variable[d] for d, c in terms if d in self.variable]
        return "+".join(parts) or "0"


def _slides(tensor: Tensor) -> bool:
    return any(len(axis.terms) > 1 for axis in tensor.axes)
