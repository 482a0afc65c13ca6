"""Mamba (Gu and Dao, 2023): a selective scan instead of attention; the state of a sequence does not grow."""

from dataclasses import dataclass

from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Operator, OperatorKind
from codesign.workloads.zoo.parts import last_logits, token_states

SCAN_OPERATIONS = 7
"""For one token, channel and state: step times decay rate, exp, times state, step times input matrix times input (2), sum, output matrix and sum of it (2), less the product of step and input, which all states of a channel share."""


@dataclass(frozen=True)
class StateSpaceModel:
    """Dimensions; the inner width is twice the model's.

    Args:
        layers: Blocks.
        width: Of the model.
        states: Of a channel.
        taps: Of the causal convolution.
        vocabulary: Rows of the embedding table, which the output layer shares.
    """

    layers: int
    width: int
    states: int = 16
    taps: int = 4
    vocabulary: int = 50280

    @property
    def inner(self) -> int:
        """Channels of the scan."""
        return 2 * self.width

    @property
    def rank(self) -> int:
        """Width that the step sizes are compressed to."""
        return -(-self.width // 16)

    @property
    def parameters(self) -> int:
        """Of the whole model (rule W16)."""
        e, n, r, w = self.inner, self.states, self.rank, self.width
        block = 2 * w * e + e * (self.taps + 1) + e * (r + 2 * n) + e * (r + 1) + e * n + e + e * w + w
        return self.layers * block + self.vocabulary * w + w

    def macs(self, tokens: int) -> int:
        """MACs of so many tokens, the output layer for the last one alone (rule W17)."""
        e, n, r, w = self.inner, self.states, self.rank, self.width
        token = 2 * w * e + e * self.taps + e * (r + 2 * n) + r * e + e * w
        return tokens * self.layers * token + self.vocabulary * w


STATE_SPACE_MODELS = {
    "mamba_130m": StateSpaceModel(24, 768),
    "mamba_2_8b": StateSpaceModel(64, 2560),
}


def mamba(net: NetworkBuilder, model: StateSpaceModel, tokens: int, past: int) -> tuple[str, ...]:
    """The whole model: the logits of the last token, then the states of every layer.

    Args:
        net: Where to build.
        model: Dimensions.
        tokens: Tokens read at once.
        past: Above 0: there is a state of tokens read before, of one size however many they were.
    """
    x = token_states(net, tokens, model.vocabulary, model.width)
    kept: list[str] = []
    for layer in range(1, model.layers + 1):
        x, states = _block(net, model, x, f"layer{layer}", past > 0)
        kept.extend(states)
    return (last_logits(net, x, model.vocabulary, net.rms_norm), *kept)


def mamba_block(net: NetworkBuilder, model: StateSpaceModel, tokens: int, past: int) -> tuple[str, ...]:
    """One block of Mamba: projections, convolution, scan and gate."""
    x, states = _block(net, model, net.input("states", (net.batch, tokens, model.width)), "layer1", past > 0)
    return (x, *states)


def _block(
    net: NetworkBuilder, model: StateSpaceModel, x: str, name: str, has_state: bool
) -> tuple[str, tuple[str, ...]]:
    batch, tokens, _ = net.shape(x)
    e = model.inner
    normed = net.rms_norm(x, name=f"{name}.norm")
    both = net.linear(normed, 2 * e, bias=False, name=f"{name}.in")
    inner = net.take(both, (batch, e, tokens, 1), name=f"{name}.inner")
    gate = net.activation(net.take(both, (batch, tokens, e), name=f"{name}.gate"), "swish", name=f"{name}.gate_silu")
    if has_state:
        before = net.input(f"{name}.conv_state", (batch, e, model.taps - 1, 1))
        inner = net.concat(before, inner, axis=2, name=f"{name}.window")
        padding = (0, 0)
    else:
        padding = (model.taps - 1, 0)
    mixed = net.conv(inner, e, (model.taps, 1), padding=(padding, (0, 0)), groups=e, bias=True, name=f"{name}.conv")
    mixed = net.reshape(net.activation(mixed, "swish", name=f"{name}.silu"), (batch, tokens, e), name="channels_last")
    projected = net.linear(mixed, model.rank + 2 * model.states, bias=False, name=f"{name}.x")
    compressed = net.take(projected, (batch, tokens, model.rank), name=f"{name}.step_part")
    matrices = net.take(projected, (batch, tokens, 2 * model.states), name=f"{name}.matrices")
    steps = net.activation(net.linear(compressed, e, name=f"{name}.steps"), "softplus", name=f"{name}.softplus")
    y, state = _scan(net, model, (mixed, steps, matrices), name, has_state)
    gated = net.elementwise("mul", y, gate, name=f"{name}.mul")
    x = net.residual(x, net.linear(gated, model.width, bias=False, name=f"{name}.out"), name=f"{name}.add")
    last = net.take(inner, (batch, e, model.taps - 1, 1), name=f"{name}.next_window")
    return x, (state, last)


def _scan(
    net: NetworkBuilder, model: StateSpaceModel, reads: tuple[str, str, str], name: str, has_state: bool
) -> tuple[str, str]:
    """The selective scan: its result and the state it leaves."""
    batch, tokens, e = net.shape(reads[0])
    decay, skip = net.parameter(f"{name}.decay", (e, model.states)), net.parameter(f"{name}.skip", (e,))
    before = (net.input(f"{name}.state", (batch, e, model.states)),) if has_state else ()
    y = net.tensor(f"{name}.scanned", (batch, tokens, e), batch_axis=0)
    state = net.tensor(f"{name}.next_state", (batch, e, model.states), batch_axis=0)
    work = (
        batch * tokens * e * (SCAN_OPERATIONS * model.states + 3)
    )  # and the skip, a product and a sum, and the shared product
    net.add(
        Operator(
            f"{name}.scan",
            OperatorKind.REDUCE,
            (*reads, decay, skip, *before),
            (y, state),
            operations=work,
            function="selective_scan",
        )
    )
    return y, state
