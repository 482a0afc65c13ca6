"""Networks of depthwise and grouped convolutions: MobileNet v1 and v2, Xception, ShuffleNet."""

from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import OperatorKind

_MOBILENET_V1 = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
"""(output channels, stride) of every separable convolution (Table 1 of the paper)."""

_MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""(expansion, output channels, repetitions, stride) of every stage (Table 2 of the paper)."""

_SHUFFLE_GROUPS, _SHUFFLE_CHANNELS = 4, 272
"""Groups, and output channels of the first stage (Table 1 of the paper)."""


def mobilenet_v1(net: NetworkBuilder) -> str:
    """MobileNet 1.0 at 224 x 224 (Howard et al., arXiv:1704.04861)."""
    x = net.input("image", (net.batch, 3, 224, 224))
    x = net.conv_norm(x, 32, 3, "conv1", stride=2, function="relu")
    for index, (channels, stride) in enumerate(_MOBILENET_V1, start=2):
        width = net.shape(x)[1]
        x = net.conv_norm(x, width, 3, f"dw{index}", stride=stride, groups=width, function="relu")
        x = net.conv_norm(x, channels, 1, f"pw{index}", function="relu")
    return net.linear(net.flatten(net.global_pool(x)), 1000, name="fc")


def mobilenet_v2(net: NetworkBuilder) -> str:
    """MobileNetV2 1.0 at 224 x 224 (Sandler et al., CVPR 2018)."""
    x = net.input("image", (net.batch, 3, 224, 224))
    x = net.conv_norm(x, 32, 3, "conv1", stride=2, function="relu6")
    block = 0
    for expansion, channels, repetitions, first_stride in _MOBILENET_V2:
        for repetition in range(repetitions):
            block += 1
            stride = 1 if repetition else first_stride
            x = _inverted_residual(net, x, expansion, channels, stride, f"block{block}")
    x = net.conv_norm(x, 1280, 1, "conv_last", function="relu6")
    return net.linear(net.flatten(net.global_pool(x)), 1000, name="fc")


def _inverted_residual(net: NetworkBuilder, x: str, expansion: int, channels: int, stride: int, name: str) -> str:
    width = net.shape(x)[1]
    y = x
    if expansion != 1:
        y = net.conv_norm(y, width * expansion, 1, f"{name}.expand", function="relu6")
    wide = width * expansion
    y = net.conv_norm(y, wide, 3, f"{name}.dw", stride=stride, groups=wide, function="relu6")
    y = net.conv_norm(y, channels, 1, f"{name}.project")
    return net.residual(y, x, name=f"{name}.add") if stride == 1 and width == channels else y


def xception(net: NetworkBuilder) -> str:
    """Xception at 299 x 299 (Chollet, CVPR 2017, Figure 5)."""
    x = net.input("image", (net.batch, 3, 299, 299))
    x = net.relu(net.batch_norm(net.conv(x, 32, 3, stride=2, padding="valid", name="conv1")))
    x = net.relu(net.batch_norm(net.conv(x, 64, 3, padding="valid", name="conv2")))
    for index, channels in enumerate((128, 256, 728), start=2):
        x = _xception_down(net, x, (channels, channels), f"block{index}", relu_first=index > 2)
    for index in range(5, 13):
        y = x
        for step in range(3):
            y = _separable(net, net.relu(y), 728, f"block{index}.sep{step + 1}")
        x = net.residual(y, x, name=f"block{index}.add")
    x = _xception_down(net, x, (728, 1024), "block13")
    x = net.relu(_separable(net, x, 1536, "block14.sep1"))
    x = net.relu(_separable(net, x, 2048, "block14.sep2"))
    return net.linear(net.flatten(net.global_pool(x)), 1000, name="fc")


def _separable(net: NetworkBuilder, x: str, channels: int, name: str) -> str:
    width = net.shape(x)[1]
    x = net.conv(x, width, 3, groups=width, name=f"{name}.dw")
    return net.batch_norm(net.conv(x, channels, 1, name=f"{name}.pw"), name=f"{name}.bn")


def _xception_down(
    net: NetworkBuilder, x: str, channels: tuple[int, int], name: str, *, relu_first: bool = True
) -> str:
    y = net.relu(x) if relu_first else x
    y = _separable(net, y, channels[0], f"{name}.sep1")
    y = _separable(net, net.relu(y), channels[1], f"{name}.sep2")
    y = net.pool(y, 3, stride=2, padding="same", name=f"{name}.pool")
    shortcut = net.batch_norm(net.conv(x, channels[1], 1, stride=2, name=f"{name}.shortcut"))
    return net.residual(y, shortcut, name=f"{name}.add")


def shufflenet_v1(net: NetworkBuilder) -> str:
    """ShuffleNet 1x (Zhang et al., CVPR 2018, Table 1)."""
    x = net.input("image", (net.batch, 3, 224, 224))
    x = net.conv_norm(x, 24, 3, "conv1", stride=2, function="relu")
    x = net.pool(x, 3, stride=2, padding=1, name="pool1")
    for stage, repetitions in enumerate((4, 8, 4)):
        channels = _SHUFFLE_CHANNELS << stage
        for unit in range(repetitions):
            x = _shuffle_unit(net, x, channels, f"stage{stage + 2}.{unit + 1}", down=unit == 0)
    return net.linear(net.flatten(net.global_pool(x)), 1000, name="fc")


def _shuffle_unit(net: NetworkBuilder, x: str, channels: int, name: str, *, down: bool) -> str:
    width = net.shape(x)[1]
    stride = 2 if down else 1
    first_groups = 1 if width == 24 else _SHUFFLE_GROUPS  # the first pointwise layer has too few channels to group
    y = net.conv_norm(x, channels // 4, 1, f"{name}.pw1", groups=first_groups, function="relu")
    y = net.vector(
        OperatorKind.TRANSPOSE, (y,), net.shape(y), "channel_shuffle", 0, name=f"{name}.shuffle", batch_axis=0
    )
    y = net.conv_norm(y, channels // 4, 3, f"{name}.dw", stride=stride, groups=channels // 4)
    y = net.conv_norm(y, channels - width if down else channels, 1, f"{name}.pw2", groups=_SHUFFLE_GROUPS)
    if down:
        shortcut = net.pool(x, 3, stride=2, padding=1, function="average", name=f"{name}.pool")
        return net.relu(net.concat(shortcut, y, name=f"{name}.concat"))
    return net.relu(net.residual(y, x, name=f"{name}.add"))
