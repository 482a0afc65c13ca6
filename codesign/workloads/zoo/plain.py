"""Chains of convolutions: AlexNet, ZFNet, VGG, DarkNet-19, SqueezeNet."""

from codesign.workloads.builder import NetworkBuilder

_VGG = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}

_DARKNET = (
    ((32, 3),),
    ((64, 3),),
    ((128, 3), (64, 1), (128, 3)),
    ((256, 3), (128, 1), (256, 3)),
    ((512, 3), (256, 1), (512, 3), (256, 1), (512, 3)),
    ((1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3)),
)
"""(channels, filter) of every convolution, a pooling between the groups."""


def _classifier(net: NetworkBuilder, x: str, *widths: int) -> str:
    x = net.flatten(x)
    for index, width in enumerate(widths[:-1]):
        x = net.relu(net.linear(x, width, name=f"fc{index + 6}"))
    return net.linear(x, widths[-1], name=f"fc{len(widths) + 5}")


def alexnet(net: NetworkBuilder) -> str:
    """AlexNet (Krizhevsky et al., NIPS 2012): two groups in layers 2, 4, 5; 227 x 227 input, which gives its 55 x 55."""
    x = net.input("image", (net.batch, 3, 227, 227))
    x = net.relu(net.conv(x, 96, 11, stride=4, padding="valid", bias=True, name="conv1"))
    x = net.pool(net.local_response_norm(x), 3, stride=2, name="pool1")
    x = net.relu(net.conv(x, 256, 5, groups=2, bias=True, name="conv2"))
    x = net.pool(net.local_response_norm(x), 3, stride=2, name="pool2")
    x = net.relu(net.conv(x, 384, 3, bias=True, name="conv3"))
    x = net.relu(net.conv(x, 384, 3, groups=2, bias=True, name="conv4"))
    x = net.relu(net.conv(x, 256, 3, groups=2, bias=True, name="conv5"))
    return _classifier(net, net.pool(x, 3, stride=2, name="pool5"), 4096, 4096, 1000)


def zfnet(net: NetworkBuilder) -> str:
    """ZFNet (Zeiler and Fergus, ECCV 2014, Figure 3): 110, 55, 26, 13 and 6 pixels wide."""
    x = net.input("image", (net.batch, 3, 224, 224))
    x = net.relu(net.conv(x, 96, 7, stride=2, padding=1, bias=True, name="conv1"))
    x = net.pool(x, 3, stride=2, padding=1, name="pool1")
    x = net.relu(net.conv(x, 256, 5, stride=2, padding="valid", bias=True, name="conv2"))
    x = net.pool(x, 3, stride=2, padding=1, name="pool2")
    for index, channels in enumerate((384, 384, 256)):
        x = net.relu(net.conv(x, channels, 3, bias=True, name=f"conv{index + 3}"))
    return _classifier(net, net.pool(x, 3, stride=2, name="pool5"), 4096, 4096, 1000)


def vgg(net: NetworkBuilder, depth: int) -> str:
    """VGG-16 and VGG-19 (Simonyan and Zisserman, ICLR 2015, configurations D and E)."""
    x = net.input("image", (net.batch, 3, 224, 224))
    for stage, count in enumerate(_VGG[depth]):
        for index in range(count):
            channels = min(512, 64 << stage)
            x = net.relu(net.conv(x, channels, 3, bias=True, name=f"conv{stage + 1}_{index + 1}"))
        x = net.pool(x, 2, name=f"pool{stage + 1}")
    return _classifier(net, x, 4096, 4096, 1000)


def darknet19(net: NetworkBuilder) -> str:
    """DarkNet-19 (Redmon and Farhadi, YOLO9000, CVPR 2017, Table 6)."""
    x = net.input("image", (net.batch, 3, 224, 224))
    for stage, convs in enumerate(_DARKNET):
        if stage:
            x = net.pool(x, 2, name=f"pool{stage}")
        for index, (channels, kernel) in enumerate(convs):
            name = f"conv{stage + 1}_{index + 1}"
            x = net.activation(net.batch_norm(net.conv(x, channels, kernel, name=name)), "leaky_relu")
    return net.global_pool(net.conv(x, 1000, 1, bias=True, name="classifier"))


def squeezenet(net: NetworkBuilder) -> str:
    """SqueezeNet 1.1 (Iandola et al., arXiv:1602.07360; release 1.1 pools earlier)."""
    x = net.input("image", (net.batch, 3, 224, 224))
    x = net.relu(net.conv(x, 64, 3, stride=2, padding="valid", bias=True, name="conv1"))
    for fire, (squeeze, expand) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)), start=2
    ):
        if fire in (2, 4, 6):
            x = net.pool(x, 3, stride=2, ceil_mode=True, name=f"pool{fire - 1}")
        x = net.relu(net.conv(x, squeeze, 1, bias=True, name=f"fire{fire}.squeeze"))
        narrow = net.relu(net.conv(x, expand, 1, bias=True, name=f"fire{fire}.expand1x1"))
        wide = net.relu(net.conv(x, expand, 3, bias=True, name=f"fire{fire}.expand3x3"))
        x = net.concat(narrow, wide, name=f"fire{fire}.concat")
    return net.global_pool(net.relu(net.conv(x, 1000, 1, bias=True, name="classifier")))
