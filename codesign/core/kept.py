"""Methods whose answers an object keeps."""

from collections.abc import Callable
from functools import cache, cached_property, wraps
from typing import Any, TypeVar, TypeVarTuple

Owner = TypeVar("Owner")
Asked = TypeVarTuple("Asked")
Answer = TypeVar("Answer")

_KEPT = "_kept_"


def kept(method: Callable[[Owner, *Asked], Answer]) -> Callable[[Owner, *Asked], Answer]:
    """A method that works once for the same arguments. The object has the answers, so they go when it goes."""
    name = _KEPT + method.__name__

    @wraps(method)
    def answer(self: Owner, *asked: *Asked) -> Answer:
        own = vars(self)
        known: dict[tuple[Any, ...], Answer] = own[name] if name in own else own.setdefault(name, {})
        if asked not in known:
            known[asked] = method(self, *asked)
        return known[asked]

    return answer


@cache
def kept_by(owner: type) -> tuple[str, ...]:
    """Names under which objects keep answers of the methods and cached properties that a class itself defines."""
    own = vars(owner).items()
    return tuple(k if isinstance(x, cached_property) else _KEPT + k for k, x in own if not k.startswith("__"))
