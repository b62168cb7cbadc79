"""`train`: `lightgbm.train` with NewtonBoost on the rows of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lightgbm
from distributed import Client
from lightgbm.callback import CallbackEnv

from gbdt_hosts import dask as host
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.boosting.params import training_parameters
from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.dask.dataset import ClusterRows, DaskDataset
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
from lgb_dp.newton.trainer import NewtonBoost

TIMEOUT = 60.0
"""Seconds."""
DEFAULT_MAX_BIN = 32
"""That of `lgb_dp.Dataset`."""


def train(
    client: Client,
    params: Mapping[str, Any],
    train_set: DaskDataset,
    num_boost_round: int = 100,
    *,
    callbacks: Sequence[Callable[..., Any]] = (),
    valid_sets: Sequence[DaskDataset] = (),
    valid_names: Sequence[str] | None = None,
    feval: Any = None,
    timeout: float = TIMEOUT,
) -> DPBooster:
    """Train on the rows of a cluster, as `lightgbm.train` does on those of one process.

    Workers bin their partitions once, and sum integers in every round.  The client adds the sums and the
    noise: with the same noise, the model is the same for all partitions and any number of workers, byte for
    byte.  Workers may be lost and may join at any time.

    Parameters
    ----------
    client : distributed.Client
    params : mapping
        LightGBM's parameters.  `num_threads` are those of a worker, by default as many as it was given.
    train_set : DaskDataset
    num_boost_round : int
    callbacks : sequence of callable
        One of them is a `lgb_dp.NewtonBoost`; the others are LightGBM's.
    valid_sets : sequence of DaskDataset
        Public evaluation rows.
    valid_names : sequence of str, optional
    feval : callable or sequence of callable, optional
        As for `lightgbm.train`.
    timeout : float
        Seconds: a worker or a scheduler that is silent for so long is taken to be lost.

    Returns
    -------
    DPBooster

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
        Before a budget is touched.
    ClusterError
        If nothing of the cluster is left, or a partition cannot be computed.  The model so far is the
        trainer's `booster_`, and its report says what was granted and what was released.
    """
    host.check_client(
        client, timeout, "training waits for every round", ArgumentTypeError, InvalidArgumentError
    )
    if not isinstance(train_set, DaskDataset):
        raise ArgumentTypeError(
            f"train_set must be a lgb_dp.dask.DaskDataset, got {type(train_set).__module__}."
            f"{type(train_set).__name__}"
        )
    trainer = _only_trainer(callbacks)
    known = training_parameters(params, train_set.declarations.get("max_bin", DEFAULT_MAX_BIN))
    rows = ClusterRows(train_set, client, known.n_threads, timeout)

    def take_over(env: CallbackEnv) -> None:
        trainer(env, rows.of_run)

    take_over.before_iteration = True  # type: ignore[attr-defined]
    try:
        booster = lightgbm.train(
            dict(params),
            rows.declared,
            num_boost_round,
            valid_sets=[rows.evaluation_set(_checked_valid_set(valid, train_set)) for valid in valid_sets],
            valid_names=None if valid_names is None else list(valid_names),
            feval=feval,
            callbacks=[take_over if callback is trainer else callback for callback in callbacks],
        )
        assert isinstance(booster, DPBooster)
        return booster
    finally:
        rows.close()


def _checked_valid_set(valid: Any, train_set: DaskDataset) -> DaskDataset:
    if not isinstance(valid, DaskDataset):
        raise ArgumentTypeError(f"valid_sets must be lgb_dp.dask.DaskDatasets, got {type(valid).__name__}")
    if valid is train_set:
        raise UnsupportedParameterError("metrics on the training rows are not supported on a cluster")
    return valid


def _only_trainer(callbacks: Sequence[Callable[..., Any]]) -> NewtonBoost:
    trainers = [callback for callback in callbacks if isinstance(callback, PrivateTrainer)]
    others = [trainer for trainer in trainers if not isinstance(trainer, NewtonBoost)]
    if others:
        raise UnsupportedParameterError(
            f"{type(others[0]).__name__} is not supported on a cluster; lgb_dp.NewtonBoost is"
        )
    if len(trainers) != 1:
        raise InvalidArgumentError(
            f"callbacks must contain one lgb_dp.NewtonBoost, got {len(trainers)} private trainers"
        )
    assert isinstance(trainers[0], NewtonBoost)
    return trainers[0]
