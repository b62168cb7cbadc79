"""What tests of private training look at inside a run."""

import lightgbm as lgb

from growers import grower_of


def grower(data, callback, n_rounds=1, **params):
    """The state of a training that `keep_training_booster` leaves in the booster."""
    params = {"objective": "binary", "learning_rate": 0.3, "max_depth": 2, "verbosity": -1, **params}
    return grower_of(lgb.train(params, data, n_rounds, callbacks=[callback], keep_training_booster=True))
