"""Serving a language model: which requests come, how they are batched, over how many chips. Rules V1 to V6 of docs/reference/serving.md."""

import csv
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from codesign.core.checks import check_whole
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields
from codesign.core.files import read_structured
from codesign.core.specs import at_least
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.chips import Chips, chips_from_json
from codesign.workloads.fuse import fuse
from codesign.workloads.network import Network
from codesign.workloads.network_zeros import NetworkZeros, with_zeros
from codesign.workloads.precision import Precision, with_precision
from codesign.workloads.zoo import normalized
from codesign.workloads.zoo.language_models import LANGUAGE_MODELS, LanguageModel, Span, decode_macs, language_model
from codesign.workloads.zoo.routing import Routing, expected_distinct

FORMAT = "codesign-serving-1"
CLASSES = 4
"""Prompt lengths that are evaluated at most (rule V1)."""


@final
@dataclass(frozen=True)
class Requests:
    """Requests of one kind.

    Args:
        prompt: Tokens of the prompt.
        output: Tokens that are made.
        weight: How often they come, beside the others.
    """

    prompt: int
    output: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_whole(prompt=self.prompt, output=self.output)
        if isinstance(self.weight, bool) or not isinstance(self.weight, int | float) or not 0 < self.weight < math.inf:
            raise UserError(f"`weight` of a request must be a number > 0, got {self.weight!r}")


@final
@dataclass(frozen=True)
class ServingSpec:
    """What is served.

    Args:
        name: Of the model.
        model: Its dimensions.
        requests: The mix.
        batch: Sequences that are decoded together.
        chips: What each layer is split over.
        routing: Which experts a batch reaches.
        precision: Widths of weights, activations and caches, like W4A16KV8; None: as wide as the MACs.
        zeros: Where tensors have zeros, like weight=2:4; None: none are known.
    """

    name: str
    model: LanguageModel
    requests: tuple[Requests, ...]
    batch: int = at_least(1, 1)
    chips: Chips = field(default_factory=Chips)
    routing: Routing = Routing.EXPECTED
    precision: str | None = None
    zeros: str | None = None

    def __post_init__(self) -> None:
        check_whole(batch=self.batch)
        if not self.requests:
            raise UserError("expected at least one kind of request, got none")
        longest = max(r.prompt + r.output for r in self.requests)
        if longest > self.model.context:
            raise UserError(
                f"a request of {longest:,} tokens passes the {self.model.context:,} that the model attends to",
                where=f"model {self.name!r}",
            )
        split_model(self.model, self.chips.tensor)
        if self.chips.stages > self.model.layers:
            raise UserError(
                f"`stages` must be <= {self.model.layers}, the layers of the model, got {self.chips.stages}",
                where=f"model {self.name!r}",
            )
        if self.precision is not None:
            Precision.parse(self.precision)
        if self.zeros is not None:
            NetworkZeros.parse(self.zeros)

    def at(self, precision: str | None, zeros: str | None) -> "ServingSpec":
        """The same at a precision and with zeros; None leaves what the file says."""
        return replace(self, precision=precision or self.precision, zeros=zeros or self.zeros)

    def widths(self, bits: int) -> tuple[float, float, float]:
        """Bits of a weight, an activation and an element of the cache, scales included; `bits` where no precision is given (rule V7)."""
        if self.precision is None:
            return float(bits), float(bits), float(bits)
        wanted = Precision.parse(self.precision)
        kinds = (wanted.weights, wanted.activations, wanted.cache or wanted.activations)
        weight, activation, cache = (kind.bits + kind.extra_bits for kind in kinds)
        return weight, activation, cache

    @property
    def mean_output(self) -> float:
        """Tokens that a request makes, on average."""
        return self._mean(lambda r: r.output)

    @property
    def mean_context(self) -> int:
        """Tokens in the cache of a sequence at a decode step, on average over the steps of all requests (rule V3)."""
        steps = sum(r.weight * (r.output - 1) for r in self.requests)
        if not steps:
            return round(self._mean(lambda r: r.prompt))
        # step i of a request, the first after its prompt, reads prompt + i tokens of cache
        return round(sum(r.weight * (r.output - 1) * (r.prompt + (r.output - 2) / 2) for r in self.requests) / steps)

    @property
    def prompts(self) -> tuple[tuple[int, float], ...]:
        """(Prompt length, share of the requests), at most `CLASSES` of them (rule V1)."""
        total = sum(r.weight for r in self.requests)
        shares: dict[int, float] = {}
        for r in self.requests:
            shares[r.prompt] = shares.get(r.prompt, 0.0) + r.weight / total
        exact = sorted(shares.items())
        if len(exact) <= CLASSES:
            return tuple(exact)
        found: list[tuple[int, float]] = []
        taken: list[tuple[int, float]] = []
        work = sum(n * share for n, share in exact)
        done = 0.0
        for n, share in exact:
            taken.append((n, share))
            done += n * share
            if done >= work * (len(found) + 1) / CLASSES - 1e-12:
                weight = sum(s for _, s in taken)
                found.append((round(sum(m * s for m, s in taken) / weight), weight))
                taken = []
        return tuple(found)

    def _mean(self, value: Any) -> float:
        total = sum(r.weight for r in self.requests)
        return float(sum(r.weight * value(r) for r in self.requests) / total)

    def prefill(
        self, prompt: int, bits: int, partial_bits: int | None, past: int = 0, span: Span | None = None
    ) -> Network:
        """One chip's share of reading tokens of one prompt, of a stage or of all layers."""
        return self._network((1, prompt, past), bits, partial_bits, span)

    def decode(
        self, bits: int, partial_bits: int | None, batch: int | None = None, span: Span | None = None
    ) -> Network:
        """One chip's share of one step of the batch at the mean context, of a stage or of all layers."""
        shape = self.batch if batch is None else batch, 1, self.mean_context
        return self._network(shape, bits, partial_bits, span)

    def _network(self, shape: tuple[int, int, int], bits: int, partial_bits: int | None, span: Span | None) -> Network:
        batch, tokens, past = shape
        part = split_model(self.model, self.chips.tensor)
        net = NetworkBuilder(self.name, batch, bits, partial_bits)
        made = fuse(net.build(*language_model(net, part, tokens, past, self.routing, span)))
        if self.precision is not None:
            made = with_precision(made, Precision.parse(self.precision))
        return made if self.zeros is None else with_zeros(made, NetworkZeros.parse(self.zeros))

    @property
    def spans(self) -> tuple[Span, ...]:
        """Layers of each stage: as evenly as can be, the last with fewer for the weights of the output layer (rule V9)."""
        layers, stages = self.model.layers, self.chips.stages
        if stages == 1:
            return (Span(1, layers, True),)
        head = self.model.vocabulary * self.model.width
        share = head / ((self.step_elements(self.batch) - head) / layers)
        last = min(
            range(1, layers - stages + 2),
            key=lambda n: (max(-(-(layers - n) // (stages - 1)), n + share), -n),
        )
        each, more = divmod(layers - last, stages - 1)
        sizes = [each + (i < more) for i in range(stages - 1)] + [last]
        ends = [sum(sizes[: i + 1]) for i in range(stages)]
        return tuple(Span(end - n + 1, end, end == layers) for end, n in zip(ends, sizes, strict=True))

    def exchanged_bytes(self, rows: int, bits: float) -> float:
        """Size of the tensor that the chips add up after attention and after the feed-forward layer."""
        return rows * self.model.width * bits / 8

    def step_elements(self, batch: float) -> float:
        """Weights that a decode step of a batch reads, on all chips together; of experts the expected ones."""
        model = self.model
        each = 0.0
        if model.experts is not None:
            reached = expected_distinct(model.experts.count, model.experts.chosen, max(round(batch), 1))
            each = reached * 3 * model.width * model.experts.hidden
        return fixed_elements(model) + each * (model.layers - (model.experts.dense_layers if model.experts else 0))


def fixed_elements(model: LanguageModel) -> float:
    """Weights that every token meets: all but routed experts and the embedding table."""
    macs = decode_macs(replace(model, window=1), 0)
    w, h = model.width, model.heads
    if model.latent is None:
        macs -= model.layers * 2 * h * model.head_width
    else:
        latent = model.latent
        macs -= model.layers * h * (latent.content + latent.rotary + latent.value)
    if model.experts is not None:
        e = model.experts
        macs -= (model.layers - e.dense_layers) * 3 * w * e.hidden * e.chosen
    return float(macs)


def split_model(model: LanguageModel, chips: int) -> LanguageModel:
    """One chip's share of a model: heads, feed-forward widths and vocabulary divided; key heads repeated where there are fewer (V6).

    Raises:
        UserError: The chips do not divide the heads or a width.
    """
    if chips == 1:
        return model
    key_heads = model.key_heads // chips if model.key_heads % chips == 0 else 1
    if model.heads % chips or (model.key_heads % chips and chips % model.key_heads):
        raise UserError(
            f"{chips} chips must divide the {model.heads} heads and divide or be a multiple of the {model.key_heads} key heads",
            hint="chips in `stages` share fewer layers",
        )
    experts = model.experts
    for what, length in (("feed-forward", model.hidden), ("expert", experts.hidden if experts else chips)):
        if length % chips:
            raise UserError(f"{chips} chips must divide the {what} width {length}")
    return replace(
        model,
        heads=model.heads // chips,
        key_heads=key_heads,
        hidden=model.hidden // chips,
        vocabulary=-(-model.vocabulary // chips),
        experts=None if experts is None else replace(experts, hidden=experts.hidden // chips),
    )


# ---- files -----------------------------------------------------------------------------------

_KEYS = ("format", "model", "requests", "trace", "batch", "chips", "routing", "precision", "zeros")


def read_serving(path: str | Path) -> ServingSpec:
    """The specification in a YAML or JSON file.

    Raises:
        UserError: The file cannot be read, a key is unknown or missing, a value is wrong.
    """
    raw = read_structured(path)
    try:
        return serving_from_json(raw, Path(path).parent)
    except UserError as error:
        raise error.within(str(path)) from None


def serving_from_json(raw: Any, folder: Path = Path()) -> ServingSpec:
    """The specification of a parsed file; `folder` is where a trace is looked for.

    Raises:
        UserError: A key is unknown or missing, or a value is wrong.
    """
    fields = Fields(raw, "serving")
    for key in _KEYS:
        fields.has(key)
    fields.finish()  # before anything is missed: a key that is missing may be misspelt
    form = fields.text("format", FORMAT)
    if form != FORMAT:
        raise UserError(f"`format` must be {FORMAT!r}, got {form!r}")
    name = fields.text("model", "")
    models = {normalized(n): n for n in LANGUAGE_MODELS}
    if normalized(name) not in models:
        raise unknown_name("language model", name, LANGUAGE_MODELS)
    if fields.has("requests") == fields.has("trace"):
        raise UserError("expected one of `requests` (a histogram) and `trace` (a file)")
    found = models[normalized(name)]
    if fields.has("requests"):
        entries = enumerate(fields.items("requests"))
        requests = tuple(Fields(entry, f"requests[{index}]").record(Requests) for index, entry in entries)
    else:
        requests = read_trace(folder / fields.text("trace"))
    chips = chips_from_json(fields.raw("chips", {}))
    return fields.record(ServingSpec, name=found, model=LANGUAGE_MODELS[found], requests=requests, chips=chips)


def read_trace(path: Path) -> tuple[Requests, ...]:
    """The requests of a CSV file with the columns ``prompt`` and ``output``, equal ones counted.

    Raises:
        UserError: The file cannot be read, has no such columns, or a length is not a whole number of at least 1.
    """
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise UserError(f"cannot read the trace: {error.strerror}", where=str(path)) from None
    if not rows or not {"prompt", "output"} <= set(rows[0]):
        raise UserError("a trace needs a header with the columns prompt and output, and a row", where=str(path))
    counts: dict[tuple[int, int], int] = {}
    for line, row in enumerate(rows, 2):
        try:
            key = int(row["prompt"]), int(row["output"])
        except (TypeError, ValueError):
            raise UserError(
                f"`prompt` and `output` must be whole numbers, got {row['prompt']!r}, {row['output']!r}",
                where=f"{path}, line {line}",
            ) from None
        counts[key] = counts.get(key, 0) + 1
    return tuple(Requests(prompt, output, float(n)) for (prompt, output), n in sorted(counts.items()))
