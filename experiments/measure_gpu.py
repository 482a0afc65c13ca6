"""Latencies of operators on the graphics processor of this machine, `python -m experiments.measure_gpu --device H100 --out FOLDER`.

Writes `latency.csv` as LLMCompass' repository records them, so that `experiments.validation --set llmcompass --data FOLDER` compares them:
seconds by the host's clock around one call that is waited for, the median of many after warming up, launch and framework included.
Operands are normal random numbers in 16 bits; zeros would draw less power and run faster. Layer normalisation and GELU are compiled.
It needs a PyTorch that sees the processor, and nothing of this project.
"""

import argparse
import csv
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

COLUMNS = (
    "op",
    "device",
    "sweep",
    "M",
    "N",
    "K",
    "bytes",
    "measured_s",
    "llmcompass_roofline_s",
    "llmcompass_sim_s",
    "source",
)

Operator = Callable[[], torch.Tensor]

WIDTH = 12288
"""Of the products whose rows are swept: GPT-3's."""

CALLS, LEAST_S = 21, 0.2
"""Timed calls of an operator at least, and for how long."""


def seconds(operator: Operator) -> float:
    """Median seconds of a call that is waited for."""
    for _ in range(5):
        operator()
    torch.cuda.synchronize()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < CALLS or (time.perf_counter() - began < LEAST_S and len(times) < 1000):
        start = time.perf_counter()
        operator()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def random(*shape: int) -> torch.Tensor:
    """Normal random numbers of 16 bits on the device."""
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def products() -> Iterator[tuple[str, int, int, int]]:
    """Sweep, rows, columns and reduced length."""
    for power in range(4, 16):
        yield "M", 1 << power, WIDTH, WIDTH
    for power in range(8, 15):
        yield "NK", 8192, 1 << power, 1 << power


def rows_and_lengths() -> Iterator[tuple[str, int, int]]:
    """Sweep, rows and length."""
    for power in range(5, 16):
        yield "N", 4096, 1 << power
        yield "M", 1 << power, 4096


def measure(smoke: bool) -> Iterator[tuple[str, str, int, int | str, int | str, float]]:
    """Operator, sweep, sizes and seconds of every case; `smoke` one of each."""
    least = 1 if smoke else 1 << 30
    for sweep, m, n, k in list(products())[:least]:
        left, right = random(m, k), random(k, n)
        yield "matmul", sweep, m, n, k, seconds(lambda left=left, right=right: left @ right)  # type: ignore[misc]
    norm = torch.compile(lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), dynamic=False)
    for sweep, m, n in list(rows_and_lengths())[:least]:
        rows = random(m, n)
        yield "softmax", sweep, m, n, "", seconds(lambda rows=rows: torch.softmax(rows, -1))  # type: ignore[misc]
        torch.compiler.reset()
        yield "layernorm", sweep, m, n, "", seconds(lambda rows=rows: norm(rows))  # type: ignore[misc]
    gelu = torch.compile(lambda x: torch.nn.functional.gelu(x, approximate="tanh"), dynamic=False)
    for power in list(range(10, 30))[:least]:
        elements = random(1 << power)
        torch.compiler.reset()
        yield "gelu", "M", 1 << power, "", "", seconds(lambda elements=elements: gelu(elements))  # type: ignore[misc]


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; the last line is one JSON object; 2 without a processor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", required=True, help="name of the processor in the file, as H100")
    parser.add_argument("--out", type=Path, required=True, help="folder of latency.csv")
    parser.add_argument("--smoke", action="store_true", help="one case of each operator")
    args = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("error: this PyTorch sees no graphics processor (torch.cuda.is_available() is False)", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    source = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}"
    count = 0
    with (args.out / "latency.csv").open("w", newline="") as file, torch.no_grad():
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for operator, sweep, m, n, k, found in measure(args.smoke):
            writer.writerow([operator, args.device, sweep, m, n, k, "", f"{found:.6g}", "", "", source])
            file.flush()
            count += 1
            print(f"{operator} {m}x{n}x{k}: {1e6 * found:.1f} us", flush=True)
    print(json.dumps({"rows": count, "device": source}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
