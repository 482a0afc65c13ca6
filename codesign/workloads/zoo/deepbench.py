"""DeepBench (Baidu Research): the layers of its inference benchmark, each a network of its own inside one.

Shapes from the tables of github.com/baidu-research/DeepBench; of every shape listed with several batches one is kept.
"""

from codesign.workloads.builder import NetworkBuilder

_CONVOLUTIONS = {
    "speech": ((700, 161, 1, 32, 20, 5, 0, 2), (341, 79, 32, 32, 10, 5, 0, 2)),
    "ocr": (
        (480, 48, 1, 16, 3, 3, 1, 1),
        (240, 24, 16, 32, 3, 3, 1, 1),
        (120, 12, 32, 64, 3, 3, 1, 1),
        (60, 6, 64, 128, 3, 3, 1, 1),
    ),
    "face": (
        (108, 108, 3, 64, 3, 3, 1, 2),
        (54, 54, 64, 64, 3, 3, 1, 1),
        (27, 27, 128, 128, 3, 3, 1, 1),
        (14, 14, 128, 256, 3, 3, 1, 1),
        (7, 7, 256, 512, 3, 3, 1, 1),
    ),
    "vision": (
        (224, 224, 3, 64, 3, 3, 1, 1),
        (112, 112, 64, 128, 3, 3, 1, 1),
        (56, 56, 128, 256, 3, 3, 1, 1),
        (28, 28, 256, 512, 3, 3, 1, 1),
        (14, 14, 512, 512, 3, 3, 1, 1),
        (7, 7, 512, 512, 3, 3, 1, 1),
        (224, 224, 3, 64, 7, 7, 3, 2),
        (28, 28, 192, 32, 5, 5, 2, 1),
        (28, 28, 192, 64, 1, 1, 0, 1),
        (14, 14, 512, 48, 5, 5, 2, 1),
        (14, 14, 512, 192, 1, 1, 0, 1),
        (7, 7, 832, 256, 1, 1, 0, 1),
        (7, 7, 832, 128, 5, 5, 2, 1),
    ),
    "speaker": (
        (350, 80, 64, 64, 3, 3, 1, 1),
        (350, 80, 64, 128, 5, 5, 1, 2),
        (175, 40, 128, 128, 3, 3, 1, 1),
        (175, 40, 128, 256, 5, 5, 1, 2),
        (84, 20, 256, 256, 3, 3, 1, 1),
        (84, 20, 256, 512, 5, 5, 1, 2),
        (42, 10, 512, 512, 3, 3, 1, 1),
    ),
}
"""Input width, input height, input channels, output channels, filter width, filter height, padding, stride."""

_PRODUCTS = (
    (5124, 700, 2048),
    (35, 700, 2048),
    (5124, 700, 2560),
    (35, 700, 2560),
    (5124, 1500, 2560),
    (35, 1500, 2560),
    (7680, 1, 2560),
    (3072, 1, 1024),
    (512, 1, 500000),
    (1024, 1, 500000),
    (1024, 700, 512),
    (7680, 1500, 2560),
    (6144, 1500, 2048),
    (4608, 1500, 1536),
    (8448, 1500, 2816),
    (3072, 1500, 1024),
    (6144, 1, 2048),
    (4608, 1, 1536),
    (8448, 1, 2816),
    (512, 1, 512),
    (1024, 1, 512),
)
"""(m, n, k) of ``m x k`` weights times ``k x n`` activations."""


def deepbench_conv(net: NetworkBuilder) -> tuple[str, ...]:
    """The convolutions of speech, character, face, image and speaker recognition."""
    outputs = []
    for application, shapes in _CONVOLUTIONS.items():
        for index, (width, height, channels, out, s, r, padding, stride) in enumerate(shapes, start=1):
            name = f"{application}{index}"
            x = net.input(f"{name}.input", (net.batch, channels, height, width))
            outputs.append(net.conv(x, out, (r, s), stride=stride, padding=padding, name=name))
    return tuple(outputs)


def deepbench_gemm(net: NetworkBuilder) -> tuple[str, ...]:
    """The matrix products of speech recognition, translation and speaker identification."""
    outputs = []
    for m, n, k in _PRODUCTS:
        name = f"gemm_{m}_{n}_{k}"
        x = net.input(f"{name}.input", (net.batch * n, k))
        outputs.append(net.linear(x, m, bias=False, name=name))
    return tuple(outputs)
