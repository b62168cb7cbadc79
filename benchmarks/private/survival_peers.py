"""Peers of private survival on one cohort: runs inside an environment of their own.

``python survival_peers.py COHORT.npz OUT.npz ε ε …`` needs scikit-survival 0.28 and opacus 1.6.
Predicted times go to ``OUT.npz``, by name and ε; larger ones are later.

The private peer is Poisson regression by bands of time, with a piecewise constant hazard exp(w'x + b_k),
fitted by DP gradient descent on all rows: a person is one row, whose gradient over all bands is clipped.  Its
rate and clip are chosen on public rows of the same kind, at no cost: more than users have.
"""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any

import numpy as np

N_BANDS, N_STEPS, DELTA = 10, 200, 1e-6
TRIALS = tuple(itertools.product((0.5, 2.0), (0.03, 0.1)))
"""Clips of gradients, and rates of Adam."""

MAX_BOOSTED_ROWS = 2_000
"""Of scikit-survival's boosting, whose gradients take time with the square of the rows."""


def of_bands(X: np.ndarray, time: np.ndarray, event: np.ndarray, ends: np.ndarray) -> tuple[Any, Any, Any]:
    """Features, the time that each row spends in each band, and where its event is."""
    import torch

    starts = np.concatenate([[0.0], ends[:-1]])
    exposure = np.clip(time[:, None] - starts, 0.0, ends - starts)
    place = np.minimum(np.searchsorted(ends, time), len(ends) - 1)
    events = (np.arange(len(ends)) == place[:, None]) & event[:, None]
    return tuple(torch.tensor(one, dtype=torch.float32) for one in (X / 3, exposure, events))


def poisson(rows: tuple[Any, Any, Any], noise: float, clip: float, rate: float) -> Any:
    """A model whose outputs are logarithms of hazards: a weight per feature and an intercept per band."""
    import torch
    from opacus import PrivacyEngine

    class Hazards(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.risk = torch.nn.Linear(rows[0].shape[1], 1, bias=False)
            self.base = torch.nn.Linear(1, N_BANDS, bias=False)
            torch.nn.init.zeros_(self.risk.weight)
            torch.nn.init.constant_(self.base.weight, -2.0)

        def forward(self, X: Any) -> Any:
            return self.risk(X) + self.base(torch.ones(len(X), 1))

    class Likelihood(torch.nn.Module):
        reduction = "mean"

        def forward(self, log_hazard: Any, exposure: Any, events: Any) -> Any:
            log_hazard = log_hazard.clamp(-12, 6)
            return (exposure * log_hazard.exp() - events * log_hazard).sum(dim=1).mean()

    net, loss = Hazards(), Likelihood()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*rows), batch_size=len(rows[0]))
    private, optimizer, _ = PrivacyEngine().make_private(
        module=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=rate),
        data_loader=loader,
        noise_multiplier=noise,
        max_grad_norm=clip,
        poisson_sampling=False,
    )
    for _ in range(N_STEPS):
        optimizer.zero_grad()
        loss(private(rows[0]), *rows[1:]).backward()
        optimizer.step()
    return net


def expected_time(net: Any, X: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Restricted mean of the predicted times, up to the last band."""
    import torch

    with torch.no_grad():
        hazard = net(torch.tensor(X / 3, dtype=torch.float32)).clamp(-12, 6).exp().numpy()
    survived = np.exp(-np.cumsum(hazard * np.diff(np.concatenate([[0.0], ends])), axis=1))
    return np.asarray(survived @ np.diff(np.concatenate([[0.0], ends])))


def private_peer(data: Any, epsilon: float) -> np.ndarray:
    """Predicted times of Poisson regression by time bands."""
    import torch
    from opacus.accountants.analysis.gdp import delta_eps_mu
    from scipy.optimize import brentq

    torch.set_num_threads(1)
    torch.manual_seed(0)
    mu = brentq(lambda mu: delta_eps_mu(eps=epsilon, mu=mu) - DELTA, 1e-6, 100.0)
    noise, ends = math.sqrt(N_STEPS) / mu, np.geomspace(*data["times"], N_BANDS + 1)[1:]
    rows = of_bands(data["X"], data["time"], data["event"], ends)
    public = of_bands(data["X_public"], data["time_public"], data["event_public"], ends)

    def likelihood(trial: tuple[float, float]) -> float:
        net = poisson(rows, noise, *trial)
        with torch.no_grad():
            log_hazard = net(public[0]).clamp(-12, 6)
            value = -(public[1] * log_hazard.exp() - public[2] * log_hazard).sum(dim=1).mean()
        return float(value) if math.isfinite(float(value)) else -math.inf

    best = max(TRIALS, key=likelihood)
    return expected_time(poisson(rows, noise, *best), data["X_test"], ends)


def survival_peers(data: Any) -> dict[str, np.ndarray]:
    """Predicted orders of scikit-survival's models without privacy, as times."""
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    y = np.rec.fromarrays([data["event"], data["time"]], names=["event", "time"])
    models = {"scikit-survival Cox": CoxPHSurvivalAnalysis(alpha=1e-3)}
    if len(y) <= MAX_BOOSTED_ROWS:
        settings = {"n_estimators": 200, "max_depth": 3, "subsample": 0.5, "random_state": 0}
        models["scikit-survival boosting"] = GradientBoostingSurvivalAnalysis(**settings)
    return {name: -one.fit(data["X"], y).predict(data["X_test"]) for name, one in models.items()}


def main() -> None:
    """Write all predictions."""
    source, out, *epsilons = sys.argv[1:]
    with np.load(source) as file:
        data = {key: file[key] for key in file}
    found = survival_peers(data)
    for epsilon in map(float, epsilons):
        found[f"Poisson by time bands (opacus)/{epsilon:g}"] = private_peer(data, epsilon)
    np.savez(out, **found)


if __name__ == "__main__":
    main()
