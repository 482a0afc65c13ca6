import pytest
import torch
from torch import nn

from codesign.core.errors import UserError
from codesign.scheduling.cosma.graph import OperatorGraph
from codesign.scheduling.cosma.torch_import import graph_from_module


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 6 * 6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x)))
        z = torch.relu(y + x)
        return self.head(torch.flatten(z, 1))


class Splits(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = torch.chunk(x, 2, dim=1)
        return a * 2, b + a


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1


def signature(graph: OperatorGraph) -> list[tuple[int, int, int]]:
    """Working set without parameters, parameters, number of inputs, per operator."""
    index = graph.index
    return [
        (index.working_set_bytes(o) - index.parameter_bytes[o], index.parameter_bytes[o], len(index.inputs[o]))
        for o in range(len(graph.operators))
    ]


def test_fused_layers_views_and_parameters() -> None:
    graph = graph_from_module(Residual(), [torch.zeros(1, 4, 6, 6)])
    # the input; convolution with 144 weights, normalisation with 4 x 4 and activation; sum and activation; linear
    assert signature(graph) == [(144, 0, 0), (288, 144 + 16, 1), (432, 0, 2), (149, 725, 1)]
    assert len(graph.outputs) == 1


def test_unfused_keeps_every_operator_but_views() -> None:
    graph = graph_from_module(Residual(), [torch.zeros(1, 4, 6, 6)], fused=False)
    assert [o.kind for o in graph.operators] == ["input", "conv2d", "batch_norm", "relu", "add", "relu", "linear"]


def test_siblings_are_made_together() -> None:
    graph = graph_from_module(Splits(), [torch.zeros(1, 4, 3)], bits=16)
    index = graph.index
    chunk = next(i for i, o in enumerate(graph.operators) if o.kind == "chunk")
    assert [index.size_bytes[t] for t in index.outputs[chunk]] == [12, 12]
    assert len(graph.outputs) == 2
    assert graph.compulsory_bytes == 24 + 12 + 12


def test_a_module_with_data_dependent_control_flow_is_refused() -> None:
    with pytest.raises(UserError, match=r"module Branches cannot be traced with torch\.export"):
        graph_from_module(Branches(), [torch.zeros(2)])


def test_tracing_leaves_the_module_in_training_mode() -> None:
    module = Residual().train()
    graph_from_module(module, [torch.zeros(1, 4, 6, 6)])
    assert module.training


def test_bits_must_be_positive() -> None:
    with pytest.raises(UserError, match="`bits` must be >= 1, got 0"):
        graph_from_module(Residual(), [torch.zeros(1, 4, 6, 6)], bits=0)
