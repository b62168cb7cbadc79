"""Stock XGBoost, as the reference of training across parties."""

import xgboost

from xgb_fed.boosting.params import TREE_PARAMETERS, Settings, without_vertical_only


def train_stock(params, X, y, num_boost_round, n_jobs=0):
    """Train stock XGBoost on one matrix, with the settings that `train_simfl` trains by."""
    settings = without_vertical_only(Settings.from_params(params))
    data = xgboost.QuantileDMatrix(X, label=y, max_bin=settings.max_bin, nthread=n_jobs or None)
    stock = {name: getattr(settings, name) for name in TREE_PARAMETERS} | settings.of_xgboost
    stock |= {"tree_method": "hist", "seed": settings.random_state or 0, "nthread": n_jobs, "verbosity": 0}
    if settings.base_score is not None:
        stock["base_score"] = settings.base_score
    return xgboost.train(stock, data, num_boost_round)
