"""A search of a private classifier."""

import lgb_dp


def searched(settings=None, model=None, **kwargs):
    return lgb_dp.DPRandomizedSearchCV(
        lgb_dp.DPLGBMClassifier(n_estimators=5) if model is None else model,
        {"max_depth": [1, 2, 3]} if settings is None else settings,
        **{"epsilon": 20.0, "mean_trials": 6.0, **kwargs},
    )
