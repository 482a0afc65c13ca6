"""The same models in GPyTorch, and BoTorch's noisy hypervolume acquisition on them.

`FixedGP` rebuilds a fitted `gp.GaussianProcess` with GPyTorch's kernels and the hyperparameters found, so that BoTorch's
Monte Carlo acquisition functions (pending designs, noise, more than four objectives) work on the very model the exact ones
use. It is also the check of the compiled model: a test pins their posteriors equal.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import botorch
import gpytorch
import numpy as np
import torch
from botorch.acquisition.multi_objective import logei
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.multi_objective.objective import MCMultiOutputObjective
from botorch.models import ModelListGP
from botorch.models.gpytorch import GPyTorchModel
from botorch.sampling import SobolQMCNormalSampler

from codesign.optim import gp
from codesign.optim.acquisition import View
from codesign.optim.protocols import Floats, Indices
from codesign.optim.surrogate import Surrogate

MC_SAMPLES = 64
"""Quasi-random samples of the posterior (Balandat et al., BoTorch, NeurIPS 2020)."""

CHUNK = 256
"""Designs scored at once, to bound memory."""


@contextmanager
def plain_tensors() -> Iterator[None]:
    """BoTorch's hypervolume acquisition in tensors alone: its C++ extension is neither built nor used inside.

    BoTorch compiles the extension at the first use in a process that finds none, for about 25 CPU seconds and without a word. Where
    there is no compiler it goes on without. The two round differently, so which design is proposed would depend on the machine, and a
    study that is resumed on another one might not go on as it had. Afterwards BoTorch is as it was, for whoever else uses it.
    """
    before = {name: getattr(logei, name) for name in ("_C", "_load_attempted") if hasattr(logei, name)}
    for name, value in (("_C", None), ("_load_attempted", True)):
        if name in before:
            setattr(logei, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(logei, name, value)


class CoDesignKernel(gpytorch.kernels.Kernel):  # type: ignore[misc]
    """The covariance of `codesign.optim.gp`, written with tensors.

    Args:
        geometry: Of the space.
        theta: Log hyperparameters: ``2 d + 5``.
        transfer: Which input columns, after the features, hold the predictions this metric builds on.
    """

    def __init__(self, geometry: gp.Geometry, theta: Floats, transfer: slice) -> None:
        super().__init__()
        self._transfer = transfer
        self._owners = torch.tensor(geometry.owners)
        ordered = torch.tensor([geometry.ordered[o] for o in geometry.owners])
        d = len(geometry.ordered)
        value = torch.as_tensor(np.exp(theta))
        self._signal, self._rectified = value[0], value[d + 1]
        per_feature = torch.where(ordered, 1.0, 0.5).double()
        self._inverse = per_feature / value[1 : d + 1][self._owners] ** 2
        self._weights = value[d + 2 : 2 * d + 2][self._owners]
        self._trend = torch.as_tensor(geometry.trend_weights)
        self._level, self._divides = value[-3], value[-2]
        self._geometry, self._sizes = geometry, list(geometry.sizes)
        self._slope = torch.where(ordered, 2.0, 1.0).double()
        self._shift = torch.where(ordered, 1.0, 0.0).double()

    def forward(self, x1: Any, x2: Any, diag: bool = False, **params: Any) -> Any:
        """The covariance of two batches of designs: ``b x n x (f + t)`` and ``b x k x (f + t)`` to ``b x n x k``."""
        if diag:
            return self.forward(x1.unsqueeze(-2), x2.unsqueeze(-2)).squeeze(-1).squeeze(-1)
        f = len(self._owners)
        left, right = x1[..., :f], x2[..., :f]
        size1, size2 = (left - 0.5) @ self._trend, (right - 0.5) @ self._trend
        base = gp.CONSTANT_VARIANCE + gp.TREND_VARIANCE * size1.unsqueeze(-1) * size2.unsqueeze(-2)
        base = base + gp.TRANSFER_VARIANCE * (x1[..., self._transfer] @ x2[..., self._transfer].transpose(-1, -2))
        root = self._inverse.sqrt()
        r = math.sqrt(5.0) * torch.cdist(left * root, right * root, compute_mode="donot_use_mm_for_euclid_dist")
        matern = self._signal * (1.0 + r + r**2 / 3.0) * torch.exp(-r)
        a = (self._slope * left - self._shift) * self._weights.sqrt()
        b = (self._slope * right - self._shift) * self._weights.sqrt()
        norms = (1.0 + (a**2).sum(-1)).sqrt().unsqueeze(-1) * (1.0 + (b**2).sum(-1)).sqrt().unsqueeze(-2)
        cosine = ((1.0 + a @ b.transpose(-1, -2)) / norms).clamp(-1.0, 1.0)
        angle = torch.acos(cosine)
        arc = norms * (torch.sqrt(1.0 - cosine**2) + (math.pi - angle) * cosine) / math.pi
        return base + matern + self._rectified * arc + self._sides(left, right)

    def _sides(self, left: Any, right: Any) -> Any:
        """Share of equal sizes and products of divisibility, with their variances."""
        one, other = left[..., self._sizes].unsqueeze(-2), right[..., self._sizes].unsqueeze(-3)
        equal = ((one - other).abs() < gp.EQUAL).double().sum(-1) / max(1, len(self._sizes))
        a, b = self._indicators(left), self._indicators(right)
        return self._level * equal + self._divides * (a @ b.transpose(-1, -2))

    def _indicators(self, features: Any) -> Any:
        flat = self._geometry.divides(features.detach().reshape(-1, features.shape[-1]).numpy())
        return torch.as_tensor(flat).reshape(*features.shape[:-1], flat.shape[1])


class FixedGP(gpytorch.models.ExactGP, GPyTorchModel):  # type: ignore[misc]
    """An exact GP with given hyperparameters and zero mean (the kernel's constant stands for it).

    Predicts standardised targets.

    Args:
        model: The fitted model.
        width: The number of input columns: features, and the predictions that all metrics build on.
        transfer: Which of them this metric builds on.
    """

    _num_outputs = 1

    def __init__(self, model: gp.GaussianProcess, width: int, transfer: slice) -> None:
        inputs = np.zeros((len(model.features), width))
        inputs[:, : model.features.shape[1]] = model.features
        inputs[:, transfer] = model.transfer
        likelihood = gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=gpytorch.constraints.GreaterThan(1e-12)
        ).double()
        likelihood.noise = model.noise
        super().__init__(torch.as_tensor(inputs), torch.as_tensor(model.targets), likelihood)
        self.covariance = CoDesignKernel(model.geometry, model.theta, transfer)
        self.eval()

    def forward(self, x: Any) -> Any:
        """The prior at some designs."""
        return gpytorch.distributions.MultivariateNormal(torch.zeros(x.shape[:-1], dtype=x.dtype), self.covariance(x))


class _InView(MCMultiOutputObjective):  # type: ignore[misc]
    """Standardised samples as improvements over the reference point, to be maximised."""

    def __init__(self, offset: Floats, scale: Floats) -> None:
        super().__init__()
        self._offset, self._scale = torch.as_tensor(offset), torch.as_tensor(scale)

    def forward(self, samples: Any, X: Any = None) -> Any:
        """``s x b x q x m`` to the same shape."""
        return -(samples * self._scale + self._offset)


@final
@dataclass(frozen=True)
class NoisyHypervolumeImprovement:
    """qLogNEHVI over rows of indices (Daulton, Balandat and Bakshy, NeurIPS 2021; the logarithm Ament et al., NeurIPS 2023).

    Args:
        surrogate: What is believed.
        view: The scale and the reference point.
        baseline: Evaluated designs: ``k x d``.
        pending: Designs being evaluated: ``p x d``.
        seed: Of the fixed posterior samples.
    """

    surrogate: Surrogate
    view: View
    baseline: Indices
    pending: Indices
    seed: int

    def __call__(self, rows: Indices) -> Floats:
        """The worth of each design: ``n x d`` to ``n``, positive."""
        with torch.no_grad(), warnings.catch_warnings(), plain_tensors():
            warnings.simplefilter("ignore", botorch.exceptions.BotorchWarning)
            warnings.simplefilter("ignore", gpytorch.utils.warnings.NumericalWarning)
            batches = torch.as_tensor(self._inputs(rows)).unsqueeze(-2).split(CHUNK)
            worth = torch.cat([self._acquisition(batch) for batch in batches]).numpy()
        features = self.surrogate.space.features(rows)
        return np.asarray(np.exp(worth) * self.surrogate.feasibility(features), dtype=np.float64)

    def _inputs(self, rows: Indices) -> Floats:
        """Features, then every objective's transferred predictions: ``n x (f + t)``."""
        features = self.surrogate.space.features(rows)
        return np.concatenate([features, *(m.transfer(features) for m in self.surrogate.objectives)], axis=1)

    @cached_property
    def _acquisition(self) -> Any:
        metrics = self.surrogate.objectives
        transfers = [m.process.transfer.shape[1] for m in metrics]
        start = len(metrics[0].process.geometry.owners)
        width = start + sum(transfers)
        models = []
        for metric, count in zip(metrics, transfers, strict=True):
            models.append(FixedGP(metric.process, width, slice(start, start + count)))
            start += count
        offset = np.array([m.process.offset for m in metrics])
        scale = np.array([m.process.scale for m in metrics])
        return qLogNoisyExpectedHypervolumeImprovement(
            model=ModelListGP(*models),
            ref_point=[0.0] * len(models),
            X_baseline=torch.as_tensor(self._inputs(self.baseline)),
            X_pending=torch.as_tensor(self._inputs(self.pending)) if len(self.pending) else None,
            sampler=SobolQMCNormalSampler(torch.Size([MC_SAMPLES]), seed=self.seed),
            objective=_InView((offset - self.view.reference) / self.view.span, scale / self.view.span),
            prune_baseline=True,
            cache_root=False,
        )
