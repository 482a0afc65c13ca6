"""Networks by name, built from their papers; every model's file names its source."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from codesign.core.errors import UserError, unknown_name
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from codesign.workloads.zoo import branching, deepbench, plain, resnet, separable, transformers


@dataclass(frozen=True)
class ZooEntry:
    """A model of the zoo.

    Args:
        name: As it is printed.
        build: Adds the model to a builder and returns its output or outputs. A model with a sequence takes `seq`, one
            with phases `phase` as well.
        default_seq: Sequence length when none is given; None for models without a sequence.
        phases: What `phase` may be; the first is the default.
    """

    name: str
    build: Callable[..., str | tuple[str, ...]]
    default_seq: int | None = None
    phases: tuple[str, ...] = ()


_GPT2_PHASES = ("prefill", "decode")

_ENTRIES = (
    ZooEntry("alexnet", plain.alexnet),
    ZooEntry("zfnet", plain.zfnet),
    ZooEntry("vgg16", lambda net: plain.vgg(net, 16)),
    ZooEntry("vgg19", lambda net: plain.vgg(net, 19)),
    ZooEntry("darknet19", plain.darknet19),
    ZooEntry("squeezenet", plain.squeezenet),
    ZooEntry("googlenet", branching.googlenet),
    ZooEntry("resnet18", lambda net: resnet.resnet(net, 18)),
    ZooEntry("resnet34", lambda net: resnet.resnet(net, 34)),
    ZooEntry("resnet50", lambda net: resnet.resnet(net, 50)),
    ZooEntry("resnet50_v1", lambda net: resnet.resnet(net, 50, stride_first=True)),
    ZooEntry("resnet101", lambda net: resnet.resnet(net, 101)),
    ZooEntry("resnet101_v1", lambda net: resnet.resnet(net, 101, stride_first=True)),
    ZooEntry("resnext50", resnet.resnext50),
    ZooEntry("densenet121", branching.densenet121),
    ZooEntry("inception_resnet_v1", branching.inception_resnet_v1),
    ZooEntry("mobilenet_v1", separable.mobilenet_v1),
    ZooEntry("mobilenet_v2", separable.mobilenet_v2),
    ZooEntry("xception", separable.xception),
    ZooEntry("shufflenet_v1", separable.shufflenet_v1),
    ZooEntry("bert_base", transformers.bert_base, default_seq=128),
    ZooEntry("vit_b16", transformers.vit_b16),
    ZooEntry("gpt2_small", lambda net, **o: transformers.gpt2(net, "small", **o), default_seq=512, phases=_GPT2_PHASES),
    ZooEntry("gpt2_xl", lambda net, **o: transformers.gpt2(net, "xl", **o), default_seq=1024, phases=_GPT2_PHASES),
    ZooEntry("deepbench_conv", deepbench.deepbench_conv),
    ZooEntry("deepbench_gemm", deepbench.deepbench_gemm),
)

ZOO = {entry.name: entry for entry in _ENTRIES}


def normalized(name: str) -> str:
    """The name without case and separators, by which models are looked up: ``MobileNet-v2`` is ``mobilenetv2``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


_BY_NORMALIZED = {normalized(name): entry for name, entry in ZOO.items()}


def is_zoo_name(name: str) -> bool:
    """Whether the zoo has a model of that name."""
    return normalized(name) in _BY_NORMALIZED


def build_model(
    name: str,
    *,
    batch: int = 1,
    seq: int | None = None,
    phase: str | None = None,
    bits: int = 8,
    partial_bits: int | None = None,
) -> Network:
    """A network of the zoo, as its paper draws it (nothing fused).

    Args:
        name: Its name; case and separators do not matter.
        batch: Inferences that run together.
        seq: Sequence length, for models that have one. When decoding, the tokens attended to, the new one included.
        phase: ``prefill`` or ``decode``, for models that have phases.
        bits: Width of every element.
        partial_bits: Width of partial sums; default `bits`.

    Raises:
        UserError: Unknown name, or an option that the model does not have.
    """
    entry = _BY_NORMALIZED.get(normalized(name))
    if entry is None:
        raise unknown_name("network", name, ZOO)
    where = f"network {entry.name!r}"
    options: dict[str, int | str] = {}
    if entry.default_seq is not None:
        options["seq"] = entry.default_seq if seq is None else seq
        if isinstance(options["seq"], bool) or not isinstance(options["seq"], int) or options["seq"] < 1:
            raise UserError(f"`seq` must be an integer >= 1, got {seq!r}", where=where)
    elif seq is not None:
        raise UserError("`seq` was given, but this network has no sequence", where=where)
    if entry.phases:
        options["phase"] = phase or entry.phases[0]
        if options["phase"] not in entry.phases:
            raise unknown_name("phase", str(phase), entry.phases, where=where)
    elif phase is not None:
        raise UserError("`phase` was given, but this network has no phases", where=where)
    net = NetworkBuilder(entry.name, batch, bits, partial_bits)
    outputs = entry.build(net, **options)
    return net.build(*((outputs,) if isinstance(outputs, str) else outputs))
