"""Networks by name, built from their papers; every model's file names its source."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from codesign.core.checks import check_whole
from codesign.core.errors import UserError, unknown_name
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from codesign.workloads.zoo import (
    branching,
    deepbench,
    diffusion,
    language_models,
    plain,
    resnet,
    separable,
    speech,
    state_space,
    transformers,
)
from codesign.workloads.zoo.routing import Routing


@dataclass(frozen=True)
class ZooEntry:
    """A model of the zoo.

    Args:
        name: As it is printed.
        build: Adds the model to a builder and returns its output or outputs. A model with a sequence takes `seq`, one
            with phases `tokens` and `past` instead.
        default_seq: Tokens read (when decoding: tokens in the cache) when nothing is given; None for models without a sequence.
        phases: What `phase` may be; the first is the default.
        context: Tokens that the model attends to at most; None where nothing limits it.
    """

    name: str
    build: Callable[..., str | tuple[str, ...]]
    default_seq: int | None = None
    phases: tuple[str, ...] = ()
    context: int | None = None


PHASES = ("prefill", "decode")

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
    ZooEntry("vit_b16", lambda net: transformers.vit(net, "b")),
    ZooEntry("vit_l16", lambda net: transformers.vit(net, "l")),
    ZooEntry("stable_diffusion_unet", diffusion.stable_diffusion_unet),
    ZooEntry("gpt2_small", lambda net, **o: transformers.gpt2(net, "small", **o), default_seq=512, phases=PHASES),
    ZooEntry("gpt2_xl", lambda net, **o: transformers.gpt2(net, "xl", **o), default_seq=1024, phases=PHASES),
    ZooEntry(
        "gpt2_small_block", lambda net, **o: transformers.gpt2_block(net, "small", **o), default_seq=512, phases=PHASES
    ),
    ZooEntry(
        "gpt2_xl_block", lambda net, **o: transformers.gpt2_block(net, "xl", **o), default_seq=1024, phases=PHASES
    ),
    ZooEntry("deepbench_conv", deepbench.deepbench_conv),
    ZooEntry("deepbench_gemm", deepbench.deepbench_gemm),
)


def _language_models() -> tuple[ZooEntry, ...]:
    """Every language model and one block of it; those with experts also with the most experts a batch can reach (``_worst``)."""
    entries = []
    for name, model in language_models.LANGUAGE_MODELS.items():
        kinds = [("", Routing.EXPECTED)] + ([("_worst", Routing.WORST)] if model.experts else [])
        for ending, routing in kinds:
            for part, make in (
                ("", language_models.language_model),
                ("_block", language_models.language_model_block),
            ):
                build = partial(make, model=model, routing=routing)
                entries.append(ZooEntry(f"{name}{part}{ending}", build, 512, PHASES, model.context))
    return tuple(entries)


def _other_models() -> tuple[ZooEntry, ...]:
    """State-space models and one block of each; encoders of sound with their decoders."""
    entries = []
    for name, scanned in state_space.STATE_SPACE_MODELS.items():
        entries.append(ZooEntry(name, partial(state_space.mamba, model=scanned), 512, PHASES))
        block = partial(state_space.mamba_block, model=scanned)
        entries.append(ZooEntry(f"{name}_block", block, 512, PHASES))
    for name, heard in speech.SPEECH_MODELS.items():
        entries.append(ZooEntry(name, partial(speech.whisper, model=heard), 4, PHASES, heard.positions))
    return tuple(entries)


ZOO = {entry.name: entry for entry in (*_ENTRIES, *_language_models(), *_other_models())}


def normalized(name: str) -> str:
    """The name without case and separators, by which models are looked up: ``MobileNet-v2`` is ``mobilenetv2``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


_BY_NORMALIZED = {normalized(name): entry for name, entry in ZOO.items()}


def zoo_entry(name: str) -> ZooEntry | None:
    """The model of that name; None where the zoo has none."""
    return _BY_NORMALIZED.get(normalized(name))


def is_zoo_name(name: str) -> bool:
    """Whether the zoo has a model of that name."""
    return normalized(name) in _BY_NORMALIZED


def build_model(
    name: str,
    *,
    batch: int = 1,
    seq: int | None = None,
    past: int | None = None,
    phase: str | None = None,
    bits: int = 8,
    partial_bits: int | None = None,
) -> Network:
    """A network of the zoo, as its paper draws it (nothing fused).

    Args:
        name: Its name; case and separators do not matter.
        batch: Inferences that run together.
        seq: Sequence length, for models that have one: tokens read. When decoding, the tokens attended to, the new one included.
        past: Tokens in the cache before those read, for models that have phases; default 0 for a prefill, when decoding
            ``seq - 1`` or else the model's usual length.
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
    options: dict[str, int] = {}
    if entry.phases:
        tokens = read_phase(entry, phase, seq, past)
        options = {"tokens": tokens.tokens, "past": tokens.past}
    else:
        for field, value in (("phase", phase), ("past", past)):
            if value is not None:
                raise UserError(f"`{field}` was given, but this network has no phases", where=where)
        if entry.default_seq is not None:
            options["seq"] = entry.default_seq if seq is None else seq
            check_whole(seq=options["seq"], where=where)
        elif seq is not None:
            raise UserError("`seq` was given, but this network has no sequence", where=where)
    net = NetworkBuilder(entry.name, batch, bits, partial_bits)
    outputs = entry.build(net, **options)
    return net.build(*((outputs,) if isinstance(outputs, str) else outputs))


@dataclass(frozen=True)
class Tokens:
    """What a language model reads in one run.

    Args:
        tokens: Tokens read at once, of every sequence.
        past: Tokens in the cache before them.
    """

    tokens: int
    past: int


def read_phase(entry: ZooEntry, phase: str | None, seq: int | None, past: int | None) -> Tokens:
    """What the options of a model with phases mean.

    Raises:
        UserError: An unknown phase, a length below its least, `seq` and `past` that contradict each other, or more tokens than the
            model attends to.
    """
    where = f"network {entry.name!r}"
    if phase is not None and phase not in entry.phases:
        raise unknown_name("phase", phase, entry.phases, where=where)
    if seq is not None:
        check_whole(seq=seq, where=where)
    if past is not None:
        check_whole(0, past=past, where=where)
    usual = entry.default_seq or 1
    if (phase or entry.phases[0]) == "prefill":
        read = Tokens(usual if seq is None else seq, past or 0)
    elif seq is not None and past is not None and seq != past + 1:
        raise UserError(
            f"`seq` is {seq}, but decoding after `past` {past} attends to {past + 1}",
            where=where,
            hint="give one of them: seq counts the new token, past does not",
        )
    else:
        read = Tokens(1, past if past is not None else usual if seq is None else seq - 1)
    if entry.context is not None and read.tokens + read.past > entry.context:
        raise UserError(
            f"the model attends to at most {entry.context:,} tokens, got {read.tokens + read.past:,} (`seq` and `past`)",
            where=where,
        )
    return read
