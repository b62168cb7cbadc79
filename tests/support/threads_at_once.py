"""Threads that meet at one moment, and the models that they train."""

import threading

import lightgbm as lgb

import lgb_dp
from small_training import binary_data, dataset

X, Y = binary_data(200)
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2, "num_threads": 1}
KEPT_OUT, LONG = 0.2, 60.0
"""Seconds that a thread is waited for: one that a lock keeps out, and any other one."""


class Inside:
    """Calls `act` in another thread, once, from inside of a patched function.

    Parameters
    ----------
    act : callable
    kept_out : bool
        Whether a lock lets `act` go on only when the patched function has ended.
    """

    def __init__(self, act, *, kept_out=False):
        self._seconds = KEPT_OUT if kept_out else LONG
        self._thread = threading.Thread(target=self._run, args=(act,))
        self._started = False
        self.error = None

    def _run(self, act):
        try:
            act()
        except Exception as error:
            self.error = error

    def __call__(self):
        if not self._started:
            self._started = True
            self._thread.start()
            self._thread.join(self._seconds)

    def end(self):
        assert self._started, "the window was never reached"
        self._thread.join(LONG)
        assert not self._thread.is_alive()
        return self.error


def pause(monkeypatch, owner, name, inside, *, after=True):
    """Let `inside` act after (or before) each call of a function."""
    original = getattr(owner, name)

    def paused(*args, **kwargs):
        if after:
            result = original(*args, **kwargs)
            inside()
            return result
        inside()
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, paused)


def fit(data, n_rounds=2, **kwargs):
    return lgb.train(QUIET, data, n_rounds, callbacks=[lgb_dp.NewtonBoost(0.5, 1e-6)], **kwargs)


def live(n_rounds=40, **kwargs):
    trainer = lgb_dp.NewtonBoost(0.5, 1e-6, rounds=n_rounds, structure="random")
    return lgb.train(QUIET, dataset(X, Y, **kwargs), 1, callbacks=[trainer], keep_training_booster=True)


def predictor_of(model):
    return lgb.basic._InnerPredictor.from_booster(booster=model, pred_parameter={})


class Edited:
    """A private model, one of whose leaves is far off until `restore`."""

    def __init__(self):
        self.model = lgb_dp.DPBooster(model_str=fit(dataset(X, Y)).model_to_string())
        self.intact = self.model.predict(X, raw_score=True)
        self._value = self.model.get_leaf_output(0, 0)
        self.model.set_leaf_output(0, 0, 9.0)

    def restore(self):
        self.model.set_leaf_output(0, 0, self._value)
