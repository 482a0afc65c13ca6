"""Networks whose layers branch and join: GoogLeNet, Inception-ResNet-v1, DenseNet-121."""

from codesign.workloads.builder import NetworkBuilder, Pair

_INCEPTION = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Channels of 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection (Table 1 of the paper)."""


def googlenet(net: NetworkBuilder) -> str:
    """GoogLeNet (Szegedy et al., CVPR 2015), without its auxiliary classifiers."""
    x = net.input("image", (net.batch, 3, 224, 224))
    x = _conv_relu(net, x, 64, 7, "conv1", stride=2, padding=3)
    x = net.local_response_norm(net.pool(x, 3, stride=2, ceil_mode=True, name="pool1"))
    x = _conv_relu(net, x, 64, 1, "conv2.reduce")
    x = net.local_response_norm(_conv_relu(net, x, 192, 3, "conv2"))
    x = net.pool(x, 3, stride=2, ceil_mode=True, name="pool2")
    for name, widths in _INCEPTION.items():
        if name in ("4a", "5a"):
            x = net.pool(x, 3, stride=2, ceil_mode=True, name=f"pool{int(name[0]) - 1}")
        x = _inception(net, x, widths, f"inception_{name}")
    return net.linear(net.flatten(net.global_pool(x)), 1000, name="fc")


def _conv_relu(
    net: NetworkBuilder,
    x: str,
    channels: int,
    kernel: Pair,
    name: str,
    *,
    stride: int = 1,
    padding: Pair | str = "same",
) -> str:
    return net.relu(net.conv(x, channels, kernel, stride=stride, padding=padding, bias=True, name=name))


def _inception(net: NetworkBuilder, x: str, widths: tuple[int, ...], name: str) -> str:
    one, reduce3, three, reduce5, five, project = widths
    branches = (
        _conv_relu(net, x, one, 1, f"{name}.1x1"),
        _conv_relu(net, _conv_relu(net, x, reduce3, 1, f"{name}.3x3_reduce"), three, 3, f"{name}.3x3"),
        _conv_relu(net, _conv_relu(net, x, reduce5, 1, f"{name}.5x5_reduce"), five, 5, f"{name}.5x5"),
        _conv_relu(net, net.pool(x, 3, stride=1, padding=1, name=f"{name}.pool"), project, 1, f"{name}.pool_proj"),
    )
    return net.concat(*branches, name=f"{name}.concat")


def inception_resnet_v1(net: NetworkBuilder) -> str:
    """Inception-ResNet-v1 at 299 x 299 (Szegedy et al., AAAI 2017, Figures 10 to 15)."""
    x = net.input("image", (net.batch, 3, 299, 299))
    x = net.conv_norm(x, 32, 3, "conv1a", stride=2, padding="valid", function="relu")
    x = net.conv_norm(x, 32, 3, "conv2a", padding="valid", function="relu")
    x = net.conv_norm(x, 64, 3, "conv2b", function="relu")
    x = net.pool(x, 3, stride=2, name="pool3a")
    x = net.conv_norm(x, 80, 1, "conv3b", function="relu")
    x = net.conv_norm(x, 192, 3, "conv4a", padding="valid", function="relu")
    x = net.conv_norm(x, 256, 3, "conv4b", stride=2, padding="valid", function="relu")
    for index in range(1, 6):
        x = _residual_block(net, x, ((32, 1),), ((32, 1), (32, 3)), ((32, 1), (32, 3), (32, 3)), name=f"A{index}")
    x = _reduction(net, x, ((384, 3),), ((192, 1), (192, 3), (256, 3)), name="reduction_A")
    for index in range(1, 11):
        x = _residual_block(net, x, ((128, 1),), ((128, 1), (128, (1, 7)), (128, (7, 1))), name=f"B{index}")
    x = _reduction(
        net, x, ((256, 1), (384, 3)), ((256, 1), (256, 3)), ((256, 1), (256, 3), (256, 3)), name="reduction_B"
    )
    for index in range(1, 6):
        x = _residual_block(net, x, ((192, 1),), ((192, 1), (192, (1, 3)), (192, (3, 1))), name=f"C{index}")
    return net.linear(net.flatten(net.global_pool(x)), 1000, name="fc")


Branch = tuple[tuple[int, Pair], ...]
"""(channels, filter) of the convolutions of one branch, in order."""


def _branches(net: NetworkBuilder, x: str, branches: tuple[Branch, ...], name: str, *, reduce: bool) -> list[str]:
    """The end of every branch; to reduce, its last convolution has stride 2 and no padding."""
    ends = []
    for index, branch in enumerate(branches):
        y = x
        for step, (channels, kernel) in enumerate(branch):
            last = reduce and step == len(branch) - 1
            stride, padding = (2, "valid") if last else (1, "same")
            part = f"{name}.branch{index}.{step}"
            y = net.conv_norm(y, channels, kernel, part, stride=stride, padding=padding, function="relu")
        ends.append(y)
    return ends


def _residual_block(net: NetworkBuilder, x: str, *branches: Branch, name: str) -> str:
    joined = net.concat(*_branches(net, x, branches, name, reduce=False), name=f"{name}.concat")
    up = net.conv(joined, net.shape(x)[1], 1, bias=True, name=f"{name}.up")
    return net.relu(net.residual(up, x, name=f"{name}.add"))


def _reduction(net: NetworkBuilder, x: str, *branches: Branch, name: str) -> str:
    ends = _branches(net, x, branches, name, reduce=True)
    return net.concat(*ends, net.pool(x, 3, stride=2, name=f"{name}.pool"), name=f"{name}.concat")


def densenet121(net: NetworkBuilder) -> str:
    """DenseNet-121, growth 32 (Huang et al., CVPR 2017, Table 1)."""
    growth = 32
    x = net.input("image", (net.batch, 3, 224, 224))
    x = net.relu(net.batch_norm(net.conv(x, 64, 7, stride=2, padding=3, name="conv1")))
    x = net.pool(x, 3, stride=2, padding=1, name="pool1")
    for block, layers in enumerate((6, 12, 24, 16), start=1):
        if block > 1:
            y = net.relu(net.batch_norm(x, name=f"transition{block - 1}.bn"))
            y = net.conv(y, net.shape(x)[1] // 2, 1, name=f"transition{block - 1}.conv")
            x = net.pool(y, 2, function="average", name=f"transition{block - 1}.pool")
        for layer in range(1, layers + 1):
            name = f"dense{block}.{layer}"
            y = net.conv(net.relu(net.batch_norm(x, name=f"{name}.bn1")), 4 * growth, 1, name=f"{name}.conv1")
            y = net.conv(net.relu(net.batch_norm(y, name=f"{name}.bn2")), growth, 3, name=f"{name}.conv2")
            x = net.concat(x, y, name=f"{name}.concat")
    x = net.relu(net.batch_norm(x, name="final.bn"))
    return net.linear(net.flatten(net.global_pool(x)), 1000, name="fc")
