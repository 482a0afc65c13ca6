"""`codesign train`: learn a policy for revising programs, over many computations and accelerators."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias, TypedDict

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.options import OutputFormat, asked
from codesign.core.errors import unknown_name
from codesign.core.plugins import entry_points

GROUP = "codesign.trainers"
"""Entry points of this group train policies; each says for which environment."""


Option: TypeAlias = int | float | str | None
"""A setting of a learner; None keeps its default."""


class TrainingReport(TypedDict):
    """What came of a training."""

    status: str
    environment: str
    policy: str
    timesteps: int
    seconds: float
    mean_gain: float
    log: str


class Trainer(Protocol):
    """What an entry point of `GROUP` gives."""

    @property
    def environment(self) -> str:
        """Identifier of the Gymnasium environment, version included."""

    def train(self, options: Mapping[str, Option], out: Path, *, resume: bool, progress: Any = None) -> TrainingReport:
        """Train in a folder; options that are None keep their defaults."""


@dataclass(frozen=True)
class TrainingOptions:
    """How a policy is trained; None where nothing was given.

    Args:
        timesteps: Steps in all, those before --resume included.
        algorithm: dqn (4 linear layers, the default) or ppo (masked policy gradients).
        cases: Random pairs of computation and accelerator to train on (256).
        case_seed: Seed of these pairs (0).
        horizon: Revisions of an episode (32).
        width: Units of a hidden layer (256).
        learning_rate: Of Adam (0.0005).
        gamma: Discount of later gains (0.9).
        environments: Environments stepped together (16).
        checkpoint_every: Steps between checkpoints (50000).
        seed: Seed of the learner and the episodes.
    """

    timesteps: int = asked(minimum=1)
    algorithm: str | None = None
    cases: int | None = None
    case_seed: int | None = None
    horizon: int | None = None
    width: int | None = None
    learning_rate: float | None = None
    gamma: float | None = None
    environments: int | None = None
    checkpoint_every: int | None = None
    seed: int = 0


def train_command(
    env: Annotated[str, typer.Option(help="Environment to train on; an unknown name lists them.")],
    options: TrainingOptions,
    out: Annotated[Path, typer.Option(help="Folder of the policy, checkpoints and log.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Train a policy that searches software programs; use it as `policy:OUT/policy.npz`.

    For example:

    codesign train --env codesign/Schedule-v0 --timesteps 20000 --out runs/agent

    codesign train --env codesign/Schedule-v0 --timesteps 40000 --out runs/agent --resume
    """
    report = _with_progress(_trainer(env), options, out, resume)
    if output_format == "json":
        echo_json(report, indent=1)
        return
    typer.echo(f"policy       {report['policy']}")
    typer.echo(f"steps        {report['timesteps']:,} in {report['seconds']:.1f} s")
    typer.echo(f"mean gain    {report['mean_gain']:.3f} (ln latency, per episode)")
    typer.echo(f"log          {report['log']}")


def _trainer(environment: str) -> Trainer:
    trainers: dict[str, Trainer] = {}
    for entry in entry_points(GROUP):
        trainer: Trainer = entry.load()
        trainers[trainer.environment] = trainer
    if environment not in trainers:
        raise unknown_name("environment", environment, trainers)
    return trainers[environment]


def _with_progress(trainer: Trainer, options: TrainingOptions, out: Path, resume: bool) -> TrainingReport:
    """Train under a progress bar on standard error."""
    from codesign.cli.tables import counting_bar

    with counting_bar("gain {task.fields[gain]:.3f}") as bar:
        task = bar.add_task("training", total=options.timesteps, gain=0.0)

        def show(done: int, wanted: int, gain: float) -> None:
            bar.update(task, completed=min(done, wanted), total=wanted, gain=gain)

        report = trainer.train(vars(options), out, resume=resume, progress=show)
        bar.update(task, completed=options.timesteps, gain=report["mean_gain"])
    return report
