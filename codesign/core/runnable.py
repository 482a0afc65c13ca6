"""An order of steps that wait for one another."""

import graphlib
import heapq
from collections.abc import Iterable, Sequence

from codesign.core.errors import UserError


def runnable_order(waits_for: Sequence[Iterable[int]], names: Sequence[str], where: str) -> tuple[int, ...]:
    """Positions, each after those it waits for; of those that may come next, the lowest.

    Args:
        waits_for: Per position those that come before it.
        names: Of the steps.
        where: For messages.

    Raises:
        UserError: There is a cycle; the message walks it.

    >>> runnable_order([[2], [], [1]], "abc", "steps")
    (1, 2, 0)
    """
    sorter = graphlib.TopologicalSorter(dict(enumerate(waits_for)))
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        walk = " -> ".join(names[position] for position in error.args[1])
        raise UserError(f"the graph has a cycle: {walk}", where=where) from None
    ready: list[int] = []
    order: list[int] = []
    while sorter.is_active():
        for position in sorter.get_ready():
            heapq.heappush(ready, position)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    return tuple(order)
