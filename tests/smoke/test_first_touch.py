"""What a new user waits for is measured in processes of their own."""

import json
import os
import subprocess
import sys


def test_a_first_run_compiles_and_a_second_does_not() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "experiments.first_touch", "--smoke"], capture_output=True, text=True, check=True,
        env=dict(os.environ),
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == {"evaluate"}
    assert set(found["evaluate"]) == {"cold_cpu_s", "cold_wall_s", "warm_cpu_s", "functions_compiled", "versions"}
    assert found["evaluate"]["functions_compiled"] >= found["evaluate"]["versions"] >= 1
    assert found["evaluate"]["cold_cpu_s"] > 0
