"""What every network reader keeps: a sound network, batches that multiply the work, widths as asked."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from codesign.workloads.load import NetworkReader
from codesign.workloads.network import Network


class ReaderContract(ABC):
    """Laws of `codesign.workloads.load.NetworkReader`."""

    @abstractmethod
    def make(self) -> NetworkReader:
        """The reader under test."""

    @abstractmethod
    def file(self) -> Path:
        """A file it reads, of a network with at least one matrix operator."""

    def _read(self, **options: Any) -> Network:
        given = {"batch": None, "seq": None, "phase": None, "dims": None, "bits": 8, "partial_bits": None, **options}
        return self.make()(str(self.file()), **given)

    def test_the_network_is_sound(self) -> None:
        """Operators in an order that can run, with work to do."""
        network = self._read()
        made: set[str] = {*network.inputs, *(t.name for t in network.tensors if t.is_parameter)}
        for operator in network.operators:
            assert set(operator.inputs) <= made, f"operator {operator.name!r} reads what nothing made"
            made |= set(operator.outputs)
        assert set(network.outputs) <= made and network.macs > 0

    def test_a_batch_multiplies_the_work(self) -> None:
        """Three inferences together are three times the multiply-accumulates."""
        one = self._read(batch=1)
        assert self._read(batch=3).macs == 3 * one.macs

    def test_widths_are_as_asked(self) -> None:
        """Operands and partial sums."""
        network = self._read(bits=16, partial_bits=32)
        computation = next(o.computation for o in network.operators if o.computation is not None)
        assert {t.bits for t in computation.tensors} == {16}
        assert max(t.partial_bits for t in computation.tensors) == 32

    def test_the_same_file_is_the_same_network(self) -> None:
        """Reading has no state."""
        assert self._read() == self._read()
