"""What a stranger meets first: flags that take no value, and refusals that say what came."""

import pytest

from tests.command_line import run

LAYER = "gemm M=8 N=8 K=8"


@pytest.mark.parametrize("command", ["map", "schedule", "explore", "evaluate", "sensitivity", "train"])
def test_flags_show_no_value(command: str) -> None:
    shown = run(command, "--help").out
    assert "<bool>" not in shown and "--" in shown
    assert f"codesign {command}" in shown and "python" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bits", "0"), "got '0'"),
        (("--seed", "many"), "got 'many'"),
        (("--time-limit", "abc"), "got 'abc'"),
    ],
)
def test_a_refused_value_is_repeated(arguments: tuple[str, ...], message: str) -> None:
    refused = run("map", "--arch", "eyeriss", "--network", "alexnet", *arguments)
    assert (
        refused.code == 2 and arguments[0] in refused.err and message in " ".join(refused.err.replace("│", " ").split())
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("map", "--arch", "eyeriss", "--layer", LAYER, "--out", "."), "--out must be a file for one layer, got the folder ."),
        (("map", "--arch", "eyeriss", "--layer", LAYER, "--option", "stepz=3"), "has no option 'stepz'; known: moves, runs"),
        (("build", "."), ". is a folder: which design of the study?; give --trial NUMBER"),
        (("verify", "none.json"), "file 'none.json' does not exist\n"),
        (("train", "--env", "codesign/Schedule-v0", "--timesteps", "-5", "--out", "x"), "got '-5'"),
        (("map", "--network", "alexnet", "--arch", "eyeriss", "--activations", "kept", "--activation-buffer", "-5"), "error: `--activation-buffer` must be"),
    ],
)  # fmt: skip
def test_planted_mistakes(arguments: tuple[str, ...], message: str) -> None:
    refused = run(*arguments)
    assert refused.code == 2 and message in refused.err.replace("│", "").replace("  ", " "), refused.err
    assert not refused.err.startswith("\n")


def test_one_mapping_is_one() -> None:
    assert "\n1 mapping scored" in run("map", "--arch", "eyeriss", "--layer", LAYER, "--mapper", "exact").out
