"""XGBoost's own rules: parameters, objectives, features, gains, the training loop."""

import gbdt_hosts.xgboost  # noqa: F401
