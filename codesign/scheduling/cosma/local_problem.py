"""One segment in local numbers, as the solvers read it: operators and tensors from 0, sets as bit masks."""

from collections.abc import Iterable
from dataclasses import dataclass

from codesign.scheduling.cosma.graph import GraphIndex
from codesign.scheduling.cosma.segments import Segment


@dataclass(frozen=True)
class SegmentProblem:
    """A segment to be ordered within a capacity. All masks use local numbers.

    Args:
        operators: Local operator -> operator of the graph.
        tensors: Local tensor -> tensor of the graph.
        size_bytes: Per tensor.
        parameter_bytes: Per operator.
        needs: Per operator the mask of tensors it reads or makes.
        reads: Per operator the mask of tensors it reads.
        makes: Per operator the mask of tensors it makes.
        predecessors: Per operator the mask of operators of the segment whose outputs it reads.
        successors: Per operator the mask of operators of the segment that read its outputs.
        readers: Per tensor the mask of operators of the segment that read it.
        live_in: Mask of tensors made before the segment and read in it or after it.
        live_out: Mask of tensors read after the segment.
    """

    operators: tuple[int, ...]
    tensors: tuple[int, ...]
    size_bytes: tuple[int, ...]
    parameter_bytes: tuple[int, ...]
    needs: tuple[int, ...]
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    predecessors: tuple[int, ...]
    successors: tuple[int, ...]
    readers: tuple[int, ...]
    live_in: int
    live_out: int

    def bytes_of(self, mask: int) -> int:
        """Total size of the tensors in `mask`."""
        total = 0
        sizes = self.size_bytes
        while mask:
            low = mask & -mask
            total += sizes[low.bit_length() - 1]
            mask ^= low
        return total

    def dead(self, tensors: int, done: int) -> int:
        """The part of the mask `tensors` that no operator outside the mask `done`, and nothing later, reads."""
        dead = 0
        mask = tensors & ~self.live_out
        while mask:
            low = mask & -mask
            if not self.readers[low.bit_length() - 1] & ~done:
                dead |= low
            mask ^= low
        return dead


def segment_problem(index: GraphIndex, segment: Segment) -> SegmentProblem:
    """The segment in local numbers."""
    operators = segment.operators
    local_operator = {o: i for i, o in enumerate(operators)}
    tensors = sorted({*segment.live_in, *(t for o in operators for t in (*index.inputs[o], *index.outputs[o]))})
    local_tensor = {t: i for i, t in enumerate(tensors)}
    reads = tuple(mask_of(local_tensor[t] for t in index.inputs[o]) for o in operators)
    makes = tuple(mask_of(local_tensor[t] for t in index.outputs[o]) for o in operators)
    readers = tuple(mask_of(local_operator[o] for o in index.consumers[t] if o in local_operator) for t in tensors)
    return SegmentProblem(
        operators=operators,
        tensors=tuple(tensors),
        size_bytes=tuple(index.size_bytes[t] for t in tensors),
        parameter_bytes=tuple(index.parameter_bytes[o] for o in operators),
        needs=tuple(r | m for r, m in zip(reads, makes, strict=True)),
        reads=reads,
        makes=makes,
        predecessors=tuple(
            mask_of(local_operator[index.producer[t]] for t in index.inputs[o] if index.producer[t] in local_operator)
            for o in operators
        ),
        successors=tuple(
            mask_of(local_operator[r] for t in index.outputs[o] for r in index.consumers[t] if r in local_operator)
            for o in operators
        ),
        readers=readers,
        live_in=mask_of(local_tensor[t] for t in segment.live_in),
        live_out=mask_of(local_tensor[t] for t in segment.live_out),
    )


def unspilled_peak_bytes(problem: SegmentProblem) -> int:
    """Largest number of live bytes when the segment runs as listed, without spills."""
    done = 0
    live = problem.live_in
    live_bytes = peak = problem.bytes_of(live)
    for operator in range(len(problem.operators)):
        live_bytes += problem.bytes_of(problem.makes[operator])
        peak = max(peak, live_bytes + problem.parameter_bytes[operator])
        done |= 1 << operator
        live_bytes -= problem.bytes_of(problem.dead(problem.needs[operator], done))
    return peak


def members(mask: int) -> list[int]:
    """The positions of the ones in `mask`, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def mask_of(positions: Iterable[int]) -> int:
    """The mask with ones at `positions`."""
    result = 0
    for position in positions:
        result |= 1 << position
    return result
