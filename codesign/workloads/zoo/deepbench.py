"""DeepBench (Baidu Research): the layers of its inference benchmark, each a network of its own inside one.

Shapes from the tables of github.com/baidu-research/DeepBench; of every shape listed with several batches one is kept.
"""

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from codesign.workloads.builder import NetworkBuilder


def _rows(table: str) -> Iterator[list[str]]:
    with Path(__file__).with_name(table).open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        next(rows)
        yield from rows


def deepbench_conv(net: NetworkBuilder) -> tuple[str, ...]:
    """The convolutions of speech, character, face, image and speaker recognition."""
    outputs = []
    number: Counter[str] = Counter()
    for application, *sizes in _rows("deepbench_convolutions.csv"):
        width, height, channels, out, s, r, padding, stride = map(int, sizes)
        number[application] += 1
        name = f"{application}{number[application]}"
        x = net.input(f"{name}.input", (net.batch, channels, height, width))
        outputs.append(net.conv(x, out, (r, s), stride=stride, padding=padding, name=name))
    return tuple(outputs)


def deepbench_gemm(net: NetworkBuilder) -> tuple[str, ...]:
    """The matrix products of speech recognition, translation and speaker identification: ``m x k`` weights times ``k x n``."""
    outputs = []
    for m, n, k in (map(int, row) for row in _rows("deepbench_products.csv")):
        name = f"gemm_{m}_{n}_{k}"
        x = net.input(f"{name}.input", (net.batch * n, k))
        outputs.append(net.linear(x, m, bias=False, name=name))
    return tuple(outputs)
