"""Small exact training runs across parties, and ways to disturb them."""

import warnings

import numpy as np

import xgb_fed
from gbdt_parties.secure_sum.messages import AskSum, Contributed, OpenRun
from xgb_fed import ExactTerms, HorizontalParty, train_exact

RNG = np.random.default_rng(5)
N_ROWS = 300
X = RNG.normal(size=(N_ROWS, 3)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=N_ROWS) > 0).astype(int)
NAMES = ("ada", "bob", "cyd")
PARAMS = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 8}
N_SUMS = 1 + 1 + 5 + 3 + 2
"""Of two rounds: sizes, base score, cuts; roots, children, and in the first rows beside children's splits."""


def party(place, folder=None, **terms):
    """The k-th of three parties; with a folder, it can be made again."""
    rows = slice(place, None, 3)
    directory = None if folder is None else folder / NAMES[place]
    return HorizontalParty(
        X[rows],
        Y[rows],
        NAMES[place],
        categorical_labels=True,
        max_rounds=terms.pop("max_rounds", 10_000),
        directory=directory,
        n_jobs=1,
        exact=ExactTerms(**terms),
    )


def parties(folder=None, **terms):
    return [party(place, folder, **terms) for place in range(3)]


def train(members, n_rounds=2, params=PARAMS, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xgb_fed.FewPartiesWarning)
        return train_exact(params, members, n_rounds, **settings)


def text_of(model):
    return bytes(model.booster.save_raw("json"))


def answers_by_attempt(member):
    """All answers that a party gave to each attempt of each run."""
    run, given = b"", {}
    for asked, answer in member.answers:
        if isinstance(asked, OpenRun):
            run = asked.run
        elif isinstance(asked, AskSum) and isinstance(answer, Contributed) and answer.content:
            given.setdefault((run, asked.number), set()).add(answer.content)
    return given
