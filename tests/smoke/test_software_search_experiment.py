import json
from pathlib import Path

from experiments.software_search import main, parse_args


def test_the_experiment_writes_its_table(tmp_path: Path) -> None:
    main(parse_args(["--smoke", "--seed", "1", "--out", str(tmp_path)]))
    result = json.loads((tmp_path / "results.json").read_text())
    for part in ("benchmarks", "unseen pairs"):
        table = result[part]["table"]
        assert set(table) == {"random", "heuristic", "annealing", "dqn"}
        for row in table.values():
            assert min(row["geometric_mean_ratio"]) >= 1.0
    assert len(result["benchmarks"]["cases"]) == 18
    assert len(result["unseen pairs"]["cases"]) == 2
    assert (tmp_path / "figure.html").exists()
