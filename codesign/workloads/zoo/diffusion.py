"""The denoising U-Net of Stable Diffusion 1 (Rombach et al., CVPR 2022): one step on a latent of 64 x 64, 77 tokens of text."""

from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.zoo.parts import attention

WIDTHS = (320, 640, 1280, 1280)
"""Channels of the four levels; all but the last attend to the text."""
TEXT_TOKENS, TEXT_WIDTH, HEADS = 77, 768, 8


def stable_diffusion_unet(net: NetworkBuilder) -> str:
    """One denoising step: 859,520,964 parameters as published."""
    image = net.input("latent", (net.batch, 4, 64, 64))
    text = net.input("text", (net.batch, TEXT_TOKENS, TEXT_WIDTH))
    time = net.input("time", (net.batch, WIDTHS[0]))
    time = net.activation(net.linear(time, 4 * WIDTHS[0], name="time1"), "swish", name="time_silu1")
    time = net.activation(net.linear(time, 4 * WIDTHS[0], name="time2"), "swish", name="time_silu2")
    x = net.conv(image, WIDTHS[0], 3, bias=True, name="conv_in")
    skips = [x]
    for level, width in enumerate(WIDTHS):
        for block in range(2):
            x = _stage(net, x, time, text, width, f"down{level}.{block}", attends=level < 3)
            skips.append(x)
        if level < 3:
            x = net.conv(x, width, 3, stride=2, padding=1, bias=True, name=f"down{level}.reduce")
            skips.append(x)
    x = _residual(net, x, time, WIDTHS[-1], "middle.0")
    x = _transformer(net, x, text, "middle.1")
    x = _residual(net, x, time, WIDTHS[-1], "middle.2")
    for level in reversed(range(4)):
        for block in range(3):
            joined = net.concat(x, skips.pop(), name=f"up{level}.{block}.join")
            x = _stage(net, joined, time, text, WIDTHS[level], f"up{level}.{block}", attends=level < 3)
        if level:
            n, channels, height, width = net.shape(x)
            wide = net.repeat(x, (n, channels, 2 * height, 2 * width), name=f"up{level}.grow")
            x = net.conv(wide, channels, 3, bias=True, name=f"up{level}.conv")
    x = net.activation(net.group_norm(x, name="norm_out"), "swish", name="silu_out")
    return net.conv(x, 4, 3, bias=True, name="conv_out")


def _stage(net: NetworkBuilder, x: str, time: str, text: str, width: int, name: str, *, attends: bool) -> str:
    x = _residual(net, x, time, width, f"{name}.residual")
    return _transformer(net, x, text, f"{name}.transformer") if attends else x


def _residual(net: NetworkBuilder, x: str, time: str, width: int, name: str) -> str:
    y = net.activation(net.group_norm(x, name=f"{name}.norm1"), "swish", name=f"{name}.silu1")
    y = net.conv(y, width, 3, bias=True, name=f"{name}.conv1")
    shift = net.reshape(net.linear(time, width, name=f"{name}.time"), (net.batch, width, 1, 1), name="as_image")
    y = net.elementwise("add", y, shift, name=f"{name}.add_time")
    y = net.activation(net.group_norm(y, name=f"{name}.norm2"), "swish", name=f"{name}.silu2")
    y = net.conv(y, width, 3, bias=True, name=f"{name}.conv2")
    skip = x if net.shape(x)[1] == width else net.conv(x, width, 1, bias=True, name=f"{name}.skip")
    return net.residual(skip, y, name=f"{name}.add")


def _transformer(net: NetworkBuilder, image: str, text: str, name: str) -> str:
    n, width, rows, columns = net.shape(image)
    x = net.conv(net.group_norm(image, name=f"{name}.norm"), width, 1, bias=True, name=f"{name}.in")
    x = net.transpose(net.reshape(x, (n, width, rows * columns), name="flat"), (0, 2, 1), name=f"{name}.tokens")
    for index, source in enumerate(("self", "text"), 1):
        normed = net.layer_norm(x, name=f"{name}.norm{index}")
        read = normed if source == "self" else text
        attended, _ = attention(net, normed, read, HEADS, f"{name}.{source}", biased="", views=("split", "merge"))
        x = net.residual(x, attended, name=f"{name}.add{index}")
    normed = net.layer_norm(x, name=f"{name}.norm3")
    both = net.linear(normed, 8 * width, name=f"{name}.up")
    gate = net.activation(
        net.take(both, (n, rows * columns, 4 * width), name=f"{name}.gate"), "gelu", name=f"{name}.gelu"
    )
    value = net.take(both, (n, rows * columns, 4 * width), name=f"{name}.value")
    fed = net.linear(net.elementwise("mul", gate, value, name=f"{name}.mul"), width, name=f"{name}.down")
    x = net.residual(x, fed, name=f"{name}.add3")
    x = net.reshape(net.transpose(x, (0, 2, 1), name=f"{name}.channels"), (n, width, rows, columns), name="as_image")
    return net.residual(image, net.conv(x, width, 1, bias=True, name=f"{name}.out"), name=f"{name}.add")
