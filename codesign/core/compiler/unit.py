"""A module for LLVM: one kernel that Python calls, and every kernel it calls."""

import numpy as np

from codesign.core.compiler import arithmetic
from codesign.core.compiler.builder import alias_nodes
from codesign.core.compiler.context import Version
from codesign.core.compiler.entry import entry_text
from codesign.core.compiler.memory import RUNTIME
from codesign.core.compiler.source import Source, body_of
from codesign.core.compiler.translator import Translator
from codesign.core.compiler.types import CompileError, Type, describe

_RESOLVE = "declare ptr @codesign_resolve(ptr)"

_REACH = """\
@slot{n} = internal global ptr null
@name{n} = internal constant [{length} x i8] c"{text}\\00"
define internal ptr @ask{n}() noinline cold nounwind {{
  %found = call ptr @codesign_resolve(ptr @name{n})
  store ptr %found, ptr @slot{n}
  ret ptr %found
}}
define internal ptr @reach{n}() alwaysinline nounwind {{
  %known = load ptr, ptr @slot{n}
  %unknown = icmp eq ptr %known, null
  br i1 %unknown, label %ask, label %done
ask:
  %asked = call ptr @ask{n}()
  br label %done
done:
  %function = phi ptr [ %known, %0 ], [ %asked, %ask ]
  ret ptr %function
}}"""
"""How a module finds a kernel apart: its address, once known, stays in a slot."""


class Unit:
    """Collects the versions that one entry needs."""

    def __init__(self) -> None:
        self._symbol = ""
        self.versions: dict[tuple[str, tuple[Type, ...]], Version] = {}
        self._under_way: dict[tuple[str, tuple[Type, ...]], Translator] = {}
        self._arrays: list[str] = []
        self._reached: dict[str, str] = {}

    def version(self, source: Source, kinds: tuple[Type, ...]) -> Version:
        """The version of a kernel for some types, translated when first asked for."""
        key = (source.name, kinds)
        if key in self._under_way:
            return self._version_in_itself(self._under_way[key])
        if key not in self.versions:
            symbol = f"k{len(self.versions) + len(self._under_way) + 1}_{source.function.__name__}"
            if source.apart:
                symbol = body_of(self._symbol)
            self._under_way[key] = Translator(self, source, kinds, symbol)
            text, result = self._under_way[key].run()
            del self._under_way[key]
            self.versions[key] = Version(symbol, result, text)
        return self.versions[key]

    def reach(self, source: Source, kinds: tuple[Type, ...]) -> str:
        """The symbol of a function that gives the address of a kernel apart, asking for it the first time."""
        signature = f"{source.name}({','.join(describe(kind) for kind in kinds)})"
        number = list(self._reached).index(signature) if signature in self._reached else len(self._reached)
        self._reached[signature] = _REACH.format(n=number, length=len(signature) + 1, text=signature)
        return f"reach{number}"

    @staticmethod
    def _version_in_itself(translator: Translator) -> Version:
        """What a kernel that calls itself knows of itself: the type of an earlier return, or the annotated one."""
        result = translator.result or translator.source.scalars.get("return")
        if result is None:
            raise CompileError(f"kernel {translator.source.name} calls itself before its first return")
        return Version(translator.symbol, result, "")

    def constant_array(self, array: np.ndarray) -> str:
        """A global array as constant memory; its symbol."""
        data = "".join(f"\\{byte:02X}" for byte in array.tobytes())
        symbol = f"@array{len(self._arrays)}"
        self._arrays.append(f'{symbol} = internal constant [{array.nbytes} x i8] c"{data}", align 8')
        return symbol

    def text(self, source: Source, kinds: tuple[Type, ...], symbol: str) -> str:
        """The module whose function `symbol` Python calls."""
        self._symbol = symbol
        main = self.version(source, kinds)
        bodies = [version.text for version in self.versions.values()]
        entry = entry_text(symbol, main.symbol, kinds, main.result)
        parts = [
            *self._arrays,
            *([_RESOLVE] if self._reached else []),
            *self._reached.values(),
            arithmetic.DECLARATIONS,
            RUNTIME,
            *bodies,
            entry,
            alias_nodes(),
        ]
        return "\n\n".join(parts)
