"""ResNet (He et al., CVPR 2016, arXiv:1512.03385) and ResNeXt (Xie et al., CVPR 2017, arXiv:1611.05431)."""

from collections.abc import Callable
from functools import partial

from codesign.workloads.builder import NetworkBuilder

_STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


def _basic_block(net: NetworkBuilder, x: str, channels: int, stride: int, name: str) -> str:
    y = net.relu(net.conv_norm(x, channels, 3, f"{name}.conv1", stride=stride))
    y = net.conv_norm(y, channels, 3, f"{name}.conv2")
    if stride != 1 or net.shape(x)[1] != channels:
        x = net.conv_norm(x, channels, 1, f"{name}.shortcut", stride=stride)
    return net.relu(net.residual(y, x, name=f"{name}.add"))


def _bottleneck(
    net: NetworkBuilder, x: str, width: int, stride: int, name: str, groups: int = 1, *, stride_first: bool = False
) -> str:
    out = 4 * (width // 2 if groups > 1 else width)
    first, second = (stride, 1) if stride_first else (1, stride)
    y = net.relu(net.conv_norm(x, width, 1, f"{name}.conv1", stride=first))
    y = net.relu(net.conv_norm(y, width, 3, f"{name}.conv2", stride=second, groups=groups))
    y = net.conv_norm(y, out, 1, f"{name}.conv3")
    if stride != 1 or net.shape(x)[1] != out:
        x = net.conv_norm(x, out, 1, f"{name}.shortcut", stride=stride)
    return net.relu(net.residual(y, x, name=f"{name}.add"))


def _staged(net: NetworkBuilder, depth: int, block: Callable[[str, int, int, str], str]) -> str:
    """Stem, stages of blocks and classifier; a block takes states, width of the stage, stride and name."""
    x = net.input("image", (net.batch, 3, 224, 224))
    x = net.relu(net.conv_norm(x, 64, 7, "conv1", stride=2))
    x = net.pool(x, 3, stride=2, padding=1, name="pool1")
    for stage, blocks in enumerate(_STAGES[depth]):
        for number in range(blocks):
            x = block(x, 64 << stage, 2 if stage and not number else 1, f"conv{stage + 2}.{number + 1}")
    return net.linear(net.flatten(net.global_pool(x, name="pool5")), 1000, name="fc")


def resnet(net: NetworkBuilder, depth: int, *, stride_first: bool = False) -> str:
    """ResNet-18/34/50/101 at 224 x 224.

    Args:
        net: Where to build.
        depth: 18, 34, 50 or 101.
        stride_first: Bottlenecks stride in their first 1x1 convolution, as the paper has it ("v1"); the default
            strides in the 3x3 ("v1.5", what today's libraries ship).
    """
    if depth < 50:
        return _staged(net, depth, partial(_basic_block, net))
    return _staged(net, depth, partial(_bottleneck, net, stride_first=stride_first))


def resnext50(net: NetworkBuilder) -> str:
    """ResNeXt-50 (32 x 4d): the 3x3 convolutions are twice as wide and have 32 groups."""
    return _staged(net, 50, lambda x, width, stride, name: _bottleneck(net, x, 2 * width, stride, name, groups=32))
