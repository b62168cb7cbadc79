"""Small federated training runs that the tests of xgb_fed share."""

import warnings
from itertools import pairwise

import numpy as np
import scipy.sparse
import xgboost

import xgb_fed
from gbdt_parties import messages
from native_trees import read_trees
from xgb_fed.errors import LabelLeakWarning


def problem(objective="binary:logistic", n=400, n_features=6, n_classes=3, missing=0.0, seed=0):
    """Columns and labels that depend on all columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    score = X @ rng.uniform(0.5, 1, n_features) + X[:, 0] * X[:, -1] + rng.normal(size=n)
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    if objective == "reg:squarederror":
        y = 10 + 3 * score
    elif objective == "binary:logistic":
        y = score > 0.3
    else:
        y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    return X, y.astype(np.float32)


def parts(X, *bounds):
    """Columns cut at some places: the active party's, then each passive one's."""
    edges = [0, *bounds, X.shape[1]]
    return [X[:, a:b] for a, b in pairwise(edges)]


def parties_of(passive, **kwargs):
    return [
        xgb_fed.LocalParty(X, f"party {k}", **{"allow_export": True, **kwargs}) for k, X in enumerate(passive)
    ]


def train(params, active, y, parties, rounds=2, weight=None, cipher=None, **kwargs):
    """`xgb_fed.train` with `Plain` unless another cipher is given, without its warning."""
    return train_on(xgb_fed.ActiveData(active, y, weight), params, parties, rounds, cipher, **kwargs)


def train_on(data, params, parties, rounds=2, cipher=None, **kwargs):
    """`train` on rows of which more is known than labels and weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
        warnings.simplefilter("ignore", LabelLeakWarning)
        return xgb_fed.train(
            params,
            data,
            parties,
            rounds,
            cipher=xgb_fed.Plain() if cipher is None else cipher,
            **{"verbose_eval": False, **kwargs},
        )


def quantile_matrix(params, X, y, weight=None, base_margin=None):
    """Unweighted cuts, as passive parties have them: weights come after."""
    data = scipy.sparse.csr_matrix(X) if scipy.sparse.issparse(X) else X
    matrix = xgboost.QuantileDMatrix(data, label=y, max_bin=params.get("max_bin", 256))
    if weight is not None:
        matrix.set_weight(weight)
    if base_margin is not None:
        matrix.set_base_margin(base_margin)
    return matrix


def stock(params, X, y, rounds=2, weight=None, base_margin=None, obj=None):
    """XGBoost itself on pooled columns."""
    matrix = quantile_matrix(params, X, y, weight, base_margin)
    return xgboost.train({"nthread": 1, **params}, matrix, rounds, obj=obj)


def assert_same_trees(ours, theirs, n_trees=None):
    """Every split the same, every leaf to 1e-6 relative."""
    pairs = list(zip(read_trees(ours), read_trees(theirs), strict=True))
    assert n_trees is None or len(pairs) == n_trees
    for number, (a, b) in enumerate(pairs):
        assert_same_tree(a, b, f"tree {number}")
    assert any(len(a["left_children"]) > 3 for a, _ in pairs), "no tree has grown"


def assert_same_tree(a, b, name=""):
    for key in ("left_children", "right_children"):
        assert list(a[key]) == list(b[key]), (name, key)
    split = np.array(a["left_children"]) >= 0
    for key in ("split_indices", "default_left"):
        np.testing.assert_array_equal(np.array(a[key])[split], np.array(b[key])[split], f"{name} {key}")
    x, y = (np.array(t["split_conditions"], dtype=np.float32) for t in (a, b))
    np.testing.assert_array_equal(x[split], y[split], f"{name} thresholds")
    np.testing.assert_allclose(x[~split], y[~split], rtol=1e-6, atol=1e-9, err_msg=f"{name} leaves")
    for key in ("loss_changes", "sum_hessian"):
        # Differences of float32 sums: as exact as the largest of them.
        np.testing.assert_allclose(
            a[key], b[key], rtol=2e-5, atol=2e-6 * max(b[key]), err_msg=f"{name} {key}"
        )


def text_of(model):
    """The model's text without what is drawn for each training."""
    return model.to_json().replace(model.model_id.hex(), "")


class Recorder:
    """A party whose messages are written down, and may be tampered with on the way.

    Parameters
    ----------
    party : Party
    change : callable, optional
        ``change(request, answer)`` gives the bytes that the active party receives.
    """

    def __init__(self, party, change=None):
        self.party, self.name, self.change = party, party.name, change
        self.requests, self.answers = [], []

    def handle(self, request):
        answer = self.party.handle(request)
        if self.change is not None:
            answer = self.change(request, answer)
        self.requests.append(request)
        self.answers.append(answer)
        return answer

    def messages(self):
        """All messages, parsed."""
        return [messages.read(data).message for data in [*self.requests, *self.answers]]


def clear_bytes(data):
    """The fields of a message that are not ciphertexts, as bytes."""
    message = messages.read(data).message
    values = [getattr(message, name) for name, tag in messages.tags(type(message)).items() if tag != "c"]
    parts = [
        v.tobytes() if isinstance(v, np.ndarray) else v.encode() if isinstance(v, str) else v
        for v in values
        if not isinstance(v, int)
    ]
    return b"|".join(parts)
