"""ResNet (He et al., CVPR 2016, arXiv:1512.03385) and ResNeXt (Xie et al., CVPR 2017, arXiv:1611.05431)."""

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


def _stem(net: NetworkBuilder) -> str:
    x = net.input("image", (net.batch, 3, 224, 224))
    x = net.relu(net.conv_norm(x, 64, 7, "conv1", stride=2))
    return net.pool(x, 3, stride=2, padding=1, name="pool1")


def _head(net: NetworkBuilder, x: str) -> str:
    return net.linear(net.flatten(net.global_pool(x, name="pool5")), 1000, name="fc")


def resnet(net: NetworkBuilder, depth: int, *, stride_first: bool = False) -> str:
    """ResNet-18/34/50/101 at 224 x 224.

    Args:
        net: Where to build.
        depth: 18, 34, 50 or 101.
        stride_first: Bottlenecks stride in their first 1x1 convolution, as the paper has it ("v1"); the default
            strides in the 3x3 ("v1.5", what today's libraries ship).
    """
    x = _stem(net)
    for stage, blocks in enumerate(_STAGES[depth]):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            name = f"conv{stage + 2}.{block + 1}"
            if depth < 50:
                x = _basic_block(net, x, width, stride, name)
            else:
                x = _bottleneck(net, x, width, stride, name, stride_first=stride_first)
    return _head(net, x)


def resnext50(net: NetworkBuilder) -> str:
    """ResNeXt-50 (32 x 4d): the 3x3 convolutions are twice as wide and have 32 groups."""
    x = _stem(net)
    for stage, blocks in enumerate(_STAGES[50]):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            x = _bottleneck(net, x, 128 << stage, stride, f"conv{stage + 2}.{block + 1}", groups=32)
    return _head(net, x)
