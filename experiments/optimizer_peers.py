"""`mobo` beside the optimisers that others use: share of the exact front's hypervolume, and time of a proposal.

    python -m experiments.optimizer_peers --boxes lpa lea leacp --optimizers mobo:black=20 optuna:tpe=20 optuna:gp=5
    python -m experiments.optimizer_peers --boxes lea --optimizers botorch=5 ax=2

A name is one that `codesign.optim.create` takes, or one of two more; after it stands how many seeds are run.

- `botorch`: as its tutorials do. One `SingleTaskGP` per metric over the coordinates that `mobo` sees, twice as many Sobol designs first
  as there are parameters, qLogNEHVI of 64 samples maximised by BoTorch's local search over discrete choices, four starts out of 512
  designs. Which designs fail is one more outcome, 1 or -1, with a constraint. `MixedSingleTaskGP` fits ten times as long.
- `ax`: `Client` with its default strategy, sizes as ordered choices. It is no dependency: ``pip install ax-platform``.

Both are given logarithms of metrics, since the share is one of logarithms. Boxes and shares are those of `experiments.outer_loop`.
Seeds that the file `--out` holds are not run again; every new one is added to it at once.
"""

import csv
import json
import math
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np

import codesign.optim
from codesign.core.errors import UserError
from codesign.core.files import write_json
from codesign.core.point import Point
from codesign.core.threads import one_thread
from codesign.optim.candidates import nearest_valid
from codesign.optim.optimizer import Optimizer, satisfied
from codesign.optim.outcomes import parse_constraints
from codesign.optim.pareto import front
from codesign.optim.protocols import Floats, History, Indices, Problem
from experiments.options import head_parser
from experiments.outer_loop import Box, box_of, curve
from spaces import Space

MARKS = (8, 20, 40)

SEEDS = {"mobo:black": 20, "nsga2:5": 20, "optuna:tpe": 20, "optuna:gp": 5, "botorch": 5, "ax": 2}
"""What is run by default; dear ones get fewer seeds."""


class Asked(Protocol):
    """An optimiser that is asked and told."""

    def ask(self, n: int = 1) -> list[Point]:
        """The next designs."""

    def tell(self, point: Point, values: dict[str, float], feasible: bool) -> None:
        """What evaluating a design gave."""


@final
@dataclass(frozen=True)
class PlainBoTorch:
    """BoTorch as its tutorials use it (Balandat et al., NeurIPS 2020), on the logarithm of every metric.

    Args:
        problem: What is searched.
        samples: Quasi-random samples of the posterior.
        restarts: Starting points of the acquisition's search.
        raw: Designs that the starting points are chosen from.
    """

    problem: Problem
    samples: int = 64
    restarts: int = 4
    raw: int = 512

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """Sobol designs, then the best of qLogNEHVI, one at a time."""
        import torch
        from botorch.optim.optimize import optimize_acqf_discrete_local_search

        space, done = self.problem.space, len(history.indices)
        if done < 2 * len(space.names) or np.isfinite(history.objectives).all(axis=1).sum() < 2:
            from codesign.optim.sampling import Sobol

            return Sobol(self.problem).propose(history, 1, rng)
        torch.manual_seed(int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            acquisition = self._acquisition(history)
            with torch.no_grad():
                found, _ = optimize_acqf_discrete_local_search(
                    lambda rows: acquisition(self._features(rows)),
                    q=1,
                    discrete_choices=[torch.arange(size, dtype=torch.double) for size in space.cardinalities],
                    num_restarts=self.restarts,
                    raw_samples=self.raw,
                    X_avoid=torch.as_tensor(history.known().astype(np.float64)),
                    max_batch_size=256,
                )
        row = np.rint(found.numpy()[0]).astype(np.int64)
        return nearest_valid(space, row, space.sample(512, rng))[None, :]

    def _features(self, rows: Any) -> Any:
        """Rows of choices as points of the unit cube: ``... x d`` to ``... x f``."""
        import torch

        flat = np.rint(rows.numpy().reshape(-1, rows.shape[-1])).astype(np.int64)
        features = self.problem.space.features(flat)
        return torch.as_tensor(features).reshape(*rows.shape[:-1], features.shape[1])

    def _acquisition(self, history: History) -> Any:
        import torch
        from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
        from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
        from botorch.models import ModelListGP
        from botorch.sampling import SobolQMCNormalSampler
        from botorch.utils.multi_objective.hypervolume import infer_reference_point

        metrics = np.concatenate([history.objectives, history.outcomes], axis=1)
        features = self.problem.space.features(history.indices)
        models = [_model(features, -np.log(column)) for column in metrics.T]
        m, limits = len(self.problem.objectives), list[partial[Any]]()
        for k, constraint in enumerate(self.problem.constraints):
            limits.append(partial(_excess, m + k, 1.0 if constraint.upper else -1.0, math.log(constraint.bound)))
        if not history.valid.all():
            models.append(_model(features, np.where(history.valid, 1.0, -1.0)))
            limits.append(partial(_excess, -1, 1.0, 0.0))
        complete = np.isfinite(history.objectives).all(axis=1)
        good = satisfied(self.problem, history)
        best = front(history.objectives[good if good.any() else complete])
        return qLogNoisyExpectedHypervolumeImprovement(
            model=ModelListGP(*models),
            ref_point=infer_reference_point(torch.as_tensor(-np.log(best))),
            X_baseline=torch.as_tensor(features[complete]),
            sampler=SobolQMCNormalSampler(torch.Size([self.samples]), seed=self.problem.seed),
            objective=IdentityMCMultiOutputObjective(outcomes=list(range(m))),
            constraints=limits or None,
            prune_baseline=True,
        )


def _model(features: Floats, values: Floats) -> Any:
    """A fitted process of one outcome, which is to be maximised."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    known = np.isfinite(values)
    model = SingleTaskGP(torch.as_tensor(features[known]), torch.as_tensor(values[known])[:, None])
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def _excess(column: int, sign: float, bound: float, outcomes: Any) -> Any:
    """How far the negative of an outcome exceeds a bound; below zero where the bound is kept."""
    return sign * (-outcomes[..., column] - bound)


class AxDefault:
    """Ax's `Client` with all its defaults, on the logarithm of every metric; a repeat counts as a trial."""

    def __init__(self, space: Space, objectives: tuple[str, ...], power_limit_w: float | None, seed: int) -> None:
        client, configs = import_module("ax.api.client"), import_module("ax.api.configs")

        parameters = []
        for parameter in space.parameters:
            values: Any = [v if isinstance(v, int | str) else float(v) for v in parameter.choices]
            kind = {int: "int", str: "str", float: "float"}[type(values[0])]
            parameters.append(configs.ChoiceParameterConfig(parameter.name, values, kind, is_ordered=parameter.ordered))
        self._space, self._names, self._limit = space, objectives, power_limit_w
        self._client, self._trials = client.Client(random_seed=seed), dict[str, int]()
        self._client.configure_experiment(parameters)
        limits = None if power_limit_w is None else [f"power <= {math.log(power_limit_w)}"]
        self._client.configure_optimization(", ".join(f"-{name}" for name in objectives), limits)
        self._client.configure_generation_strategy(initialization_random_seed=seed)

    def ask(self, n: int = 1) -> list[Point]:
        """The next design; one that breaks a known rule is given back as failed."""
        while True:
            (index, point), *_ = self._client.get_next_trials(1).items()
            if self._space.is_valid(self._space.to_indices([point]))[0]:
                self._trials[repr(sorted(point.items()))] = index
                return [dict(point)]
            self._client.mark_trial_failed(index)

    def tell(self, point: Point, values: dict[str, float], feasible: bool) -> None:
        """What evaluating a design gave."""
        index = self._trials[repr(sorted(point.items()))]
        wanted = [*self._names, *([] if self._limit is None else ["power"])]
        if feasible:
            self._client.complete_trial(index, {name: (math.log(values[name]), 0.0) for name in wanted})
        else:
            self._client.mark_trial_failed(index)


def optimizer_of(name: str, box: Box, seed: int) -> Asked:
    """The optimiser of a name for a box."""
    limits = [] if box.power_limit_w is None else [f"power<={box.power_limit_w}"]
    if name == "ax":
        try:
            return AxDefault(box.space, box.objectives, box.power_limit_w, seed)
        except ImportError as error:
            raise UserError("optimizer_peers: Ax is not installed", hint="pip install ax-platform") from error
    if name == "botorch":
        problem = Problem(box.space, box.objectives, parse_constraints(limits), seed=seed)
        return Optimizer(problem, PlainBoTorch(problem))
    return codesign.optim.create(name, box.space, box.objectives, seed=seed, constraints=limits)


@final
@dataclass(frozen=True)
class Run:
    """One search.

    Args:
        box: What was searched.
        optimizer: By which optimiser.
        seed: Of the optimiser.
        shares: Of the exact front's hypervolume after each trial.
        wall_s: Of each proposal.
        cpu_s: Of all proposals together.
    """

    box: str
    optimizer: str
    seed: int
    shares: list[float]
    wall_s: list[float]
    cpu_s: float


def run(name: str, box_name: str, exact: Floats, seed: int, trials: int) -> Run:
    """Ask and tell until all trials are done, on one thread."""
    box = box_of(box_name)
    optimizer, wall, found, cpu = optimizer_of(name, box, seed), list[float](), list[list[float]](), 0.0
    for _ in range(trials):
        start, spent = time.perf_counter(), time.process_time()
        with one_thread():
            (point,) = optimizer.ask(1)
        wall.append(time.perf_counter() - start)
        cpu += time.process_time() - spent
        values, works = box.evaluate(point)
        optimizer.tell(point, values, works)
        kept = works and (box.power_limit_w is None or values["power"] <= box.power_limit_w)
        found.append([values[o] if kept else math.inf for o in box.objectives])
    shares = curve(np.array(found), exact, log=True)
    return Run(box_name, name, seed, shares.round(4).tolist(), np.round(wall, 4).tolist(), round(cpu, 2))


def held_runs(path: Path, trials: int) -> list[Run]:
    """The runs that a file holds, none where there is no file.

    Raises:
        UserError: They have another number of trials.
    """
    runs = [Run(**r) for r in json.loads(path.read_text())] if path.exists() else []
    for r in runs:
        if len(r.shares) != trials:
            raise UserError(
                f"{path} holds a run of {len(r.shares)} trials, expected {trials}", hint="give another --out"
            )
    return runs


def summary(runs: list[Run]) -> dict[str, Any]:
    """Medians over the seeds of one optimiser on one box, and the time of proposals."""
    shares = np.median([r.shares for r in runs], axis=0)
    wall = np.concatenate([r.wall_s for r in runs])
    return {
        "box": runs[0].box,
        "optimizer": runs[0].optimizer,
        "seeds": len(runs),
        "shares": {m: round(float(shares[m - 1]), 3) for m in MARKS if m <= len(shares)},
        "last": [round(r.shares[-1], 3) for r in runs],
        "wall_s_median": round(float(np.median(wall)), 3),
        "wall_s_longest": round(float(wall.max()), 3),
        "cpu_s_per_run": round(float(np.mean([r.cpu_s for r in runs])), 1),
    }


def summaries(runs: list[Run]) -> list[dict[str, Any]]:
    """One summary for each box and optimiser, best first in each box."""
    pairs = dict.fromkeys((r.box, r.optimizer) for r in runs)
    found = [summary([r for r in runs if (r.box, r.optimizer) == pair]) for pair in pairs]
    boxes = list(dict.fromkeys(r.box for r in runs))
    return sorted(found, key=lambda s: (boxes.index(s["box"]), -float(np.median(s["last"]))))


def write_table(path: Path, results: list[dict[str, Any]]) -> None:
    """The results as a table of the documentation."""
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        marks = " / ".join(map(str, MARKS))
        times = ["median proposal, s", "longest proposal, s", "CPU s"]
        table.writerow(["box", "optimiser", "seeds", f"{marks} trials", "worst seed", *times])
        for r in results:
            shares = " ".join(f"{v:.3f}"[1:] if v < 1.0 else "1.00" for v in r["shares"].values())
            seconds = [f"{r['wall_s_median']:.2f}", f"{r['wall_s_longest']:.2f}", r["cpu_s_per_run"]]
            worst = f"{min(r['last']):.3f}"[1:]
            table.writerow([f"`{r['box']}`", f"`{r['optimizer']}`", r["seeds"], shares, worst, *seconds])


def main(arguments: list[str]) -> None:
    """Run, print a line for each box and optimiser, and write the JSON file."""
    parser = head_parser(__doc__, out=Path("runs/optimizer_peers.json"), seed=0, smoke="two trials of the cheap ones")
    parser.add_argument("--boxes", nargs="+", default=["lpa", "lea", "leacp"])
    parser.add_argument("--optimizers", nargs="+", default=[f"{name}={count}" for name, count in SEEDS.items()])
    parser.add_argument("--trials", type=int, default=40)
    options = parser.parse_args(arguments)
    if options.smoke:
        options.boxes, options.optimizers, options.trials = ["small"], ["mobo:black=1", "nsga2:5=1"], 8
    runs = held_runs(options.out, options.trials)
    for box_name in options.boxes:
        exact = box_of(box_name).exact_front()
        for text in options.optimizers:
            name, _, count = text.partition("=")
            held = {r.seed for r in runs if (r.box, r.optimizer) == (box_name, name)}
            for seed in range(options.seed, options.seed + int(count or 1)):
                if seed not in held:
                    runs.append(run(name, box_name, exact, seed, options.trials))
                    write_json(options.out, [asdict(r) for r in runs])
                    write_table(options.out.with_suffix(".csv"), summaries(runs))
            print(json.dumps(summary([r for r in runs if (r.box, r.optimizer) == (box_name, name)])), flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"optimizer_peers: {error}")
