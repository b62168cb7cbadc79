"""Private rows of which nothing may be seen, and everything that a call lets be seen.

Two `World`s have nothing in common but public facts: bounds, classes, categories, names and types of columns.
`seen_of` runs a call on one of them with all releases and all random words pinned, and gives whatever
the caller, or someone who gets what the caller publishes, could read.
"""

import contextlib
import hashlib
import itertools
import json
import logging
import pickle
import sys
import traceback
import warnings
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np
import pandas as pd
import scipy.sparse

import lgb_dp
from lgb_dp.mechanisms.noise import observed
from lgb_dp.mechanisms.rng import SecureRandom

SINCE = np.datetime64("2020-01-01"), np.datetime64("2024-01-01")
BOUNDS, LABEL_BOUNDS, CITIES = (-1.0, 1.0), (-5.0, 5.0), ["Bergen", "Oslo", "Turku"]
TABLE = {
    "bounds": {
        "age": BOUNDS,
        "height": (-9, 9),
        "since": SINCE,
        "left": (np.timedelta64(-100, "s"), np.timedelta64(100, "s")),
    },
    "categories": {"city": CITIES},
}
"""What is declared of the columns of `World.table`."""
NAMES = ["age", "height", "income", "debt"]


@dataclass(frozen=True)
class World:
    """Private rows.

    Parameters
    ----------
    X : ndarray of float64, shape (n_rows, 4)
    binary, number, kind : ndarray of float64, shape (n_rows,)
        Labels: 0 or 1, within `LABEL_BOUNDS`, or one of three classes.
    weight : ndarray of float64, shape (n_rows,)
        In [0, 2].
    city : ndarray of str, shape (n_rows,)
        Among `CITIES`.
    secret : str
        What no text may hold.
    """

    X: np.ndarray
    binary: np.ndarray
    number: np.ndarray
    kind: np.ndarray
    weight: np.ndarray
    city: np.ndarray
    secret: str

    @property
    def person(self):
        """Whose row it is: names that are nobody else's, of more rows in the larger world."""
        number = np.arange(len(self.X)) // (2 + len(self.X) // 40)
        return np.array([f"{self.secret}-{i}" for i in number])

    @property
    def with_missing(self):
        X = self.X.copy()
        X[:: 3 + len(X) % 5, 1] = np.nan
        return X

    @property
    def frame(self):
        frame = pd.DataFrame(self.with_missing, columns=NAMES)
        frame["city"] = self.city
        frame["city"] = frame["city"].astype(pd.CategoricalDtype(CITIES))
        return frame

    @property
    def table(self):
        """Columns of every kind; only the world with an odd number of rows has missing values."""
        missing = (len(self.X) % 2) * (np.arange(len(self.X)) % 7 == 0)
        table = pd.DataFrame({"age": self.X[:, 0], "height": (self.X[:, 1] * 9).round()})
        table["city"] = self.city.astype(object)
        table["since"] = (SINCE[0] + np.abs(self.X[:, 2] * 1000).astype("timedelta64[D]")).astype("M8[us]")
        table["left"] = pd.to_timedelta(self.X[:, 3] * 100, unit="s")
        table["smokes"] = self.X[:, 2] > 0.1
        table = table.astype({"age": "Float64", "height": "Int64", "city": "string", "smokes": "boolean"})
        return table.mask(pd.Series(missing.astype(bool)))

    @property
    def sparse(self):
        return scipy.sparse.csr_matrix(np.where(np.abs(self.X) < 0.4, 0.0, self.X))


def worlds():
    """Two worlds with unrelated rows: another number of them, another distribution, another rule for labels.

    The first is even and rich; the second is skewed, has no row of class 2 and hardly any of label 1.
    """
    found = []
    for seed, n in ((11, 83), (29, 140)):
        rng = np.random.default_rng(seed)
        even = seed == 11
        X = rng.uniform(-1, 1, (n, 4)) if even else np.tanh(rng.normal(0.6, 0.3, (n, 4)))
        number = (4.9 * X[:, 0] * X[:, 1]) if even else np.full(n, -4.5) + rng.uniform(0, 0.4, n)
        found.append(
            World(
                X=X,
                binary=(X[:, 0] > 0).astype(float) if even else (X[:, 2] > 0.95).astype(float),
                number=number,
                kind=np.digitize(X[:, 3], [-0.3, 0.3]).astype(float) if even else (X[:, 1] > 0.5) * 1.0,
                weight=rng.uniform(0, 2, n) if even else np.full(n, 0.25),
                city=rng.choice(CITIES, n) if even else np.full(n, "Oslo"),
                secret=f"SECRET-{seed}",
            )
        )
    return found


class PinnedRandom:
    """Random words that depend on which object draws and how often it has drawn, and on nothing else.

    Draws of one word per row use up more of a stream in the world with more rows.  That shifts what is drawn
    later, which is not a leak: what is left of a secret stream of uniform words is uniform.  Here every call
    has a stream of its own, so that later draws are the same.
    """

    def __init__(self):
        self._calls = {}

    def words(self, random, *shape):
        number = self._calls.setdefault(id(random), [random, len(self._calls), 0])
        number[2] += 1
        key = hashlib.sha256(repr(number[1:]).encode()).digest()
        rng = np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "little")))
        return rng.integers(0, 2**64, shape, dtype=np.uint64)


class PinnedReleases:
    """Observer that replaces what is released, and notes what is known of it beforehand."""

    def __init__(self):
        self.known = []

    def __call__(self, private, release):
        rng = np.random.default_rng(len(self.known))
        self.known.append((private.mechanism, private.values.shape, private.scale))
        if private.mechanism == "exponential":
            return rng.integers(0, private.values.shape[1], len(private.values))
        return np.rint(rng.normal(2.0, 3.0, private.values.shape) * private.scale).astype(np.int64)


def seen_of(call, world, monkeypatch, capfd):
    """Everything that ``call(world)`` lets be seen: results in all their forms, texts, warnings, errors."""
    random, releases, lines = PinnedRandom(), PinnedReleases(), _Lines()
    seen = {}
    capfd.readouterr()
    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        patch.setattr(SecureRandom, "words", lambda self, *shape: random.words(self, *shape))
        # Whether machine code is on disk is a fact of the machine, and of no row.
        patch.setattr("lgb_dp.boosting.training.announcing_compilation", lambda say: contextlib.nullcontext())
        numbers = itertools.count()
        patch.setattr("secrets.token_hex", lambda n=None: f"{next(numbers):016x}")  # names of budgets
        root, level = logging.getLogger(), logging.getLogger().level
        root.addHandler(lines)
        root.setLevel(logging.DEBUG)
        try:
            with observed(releases):
                for i, result in enumerate(call(world)):
                    seen |= {f"result {i}: {what}": found for what, found in _forms(result).items()}
        except Exception as error:
            seen["error"] = "".join(traceback.TracebackException.from_exception(error).format())
        finally:
            root.setLevel(level)
            root.removeHandler(lines)
    seen["warnings"] = [(w.category.__name__, str(w.message)) for w in warned]
    seen["log"] = lines.texts
    seen["releases"] = releases.known
    sys.stdout.flush()
    seen["output"] = tuple(capfd.readouterr())
    return seen


class _Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        if record.name.partition(".")[0] not in ("numba", "matplotlib"):  # compilers, which see no rows
            self.texts.append(self.format(record))


def _forms(result):
    """All that can be read of one result."""
    if isinstance(result, lgb.Booster):
        forms = {
            "model": result.model_to_string(num_iteration=-1),
            "dump": json.dumps(result.dump_model(num_iteration=-1)),
            "pickle": pickle.dumps(result),
            "attributes": sorted(vars(pickle.loads(pickle.dumps(result)))),
            "best": (result.best_iteration, repr(result.best_score)),
        }
        if hasattr(result, "privacy"):
            forms |= {f"report {what}": found for what, found in _forms(result.privacy).items()}
        return forms
    if isinstance(result, lgb_dp.PrivacyReport):
        return {
            "text": str(result),
            "repr": repr(result),
            "dict": json.dumps(result.to_dict()),
            "pickle": pickle.dumps(result),
        }
    if isinstance(result, np.ndarray):
        return {"array": (str(result.dtype), result.shape, result.tobytes())}
    if hasattr(result, "fit"):  # an estimator
        forms = {"repr": repr(result), "pickle": pickle.dumps(result), "attributes": sorted(vars(result))}
        fitted = {name: getattr(result, name, None) for name in ("booster_", "best_estimator_", "privacy_")}
        for name, value in fitted.items():
            if value is not None:
                forms |= {f"{name} {what}": found for what, found in _forms(value).items()}
        return forms
    return {"repr": repr(result)}


def differences(call, monkeypatch, capfd):
    """What of everything seen tells the two worlds apart, with the first place of each, and what was seen."""
    one, two = (seen_of(call, world, monkeypatch, capfd) for world in worlds())
    found = {what: "missing in one" for what in one.keys() ^ two.keys()}
    for what in sorted(one.keys() & two.keys()):
        if one[what] != two[what]:
            found[what] = _first_difference(one[what], two[what])
    return found, one


def _first_difference(one, two):
    one, two = (found if isinstance(found, (str, bytes)) else repr(found) for found in (one, two))
    at = next(
        (i for i, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(two)),
    )
    return one[max(0, at - 60) : at + 60], two[max(0, at - 60) : at + 60]
