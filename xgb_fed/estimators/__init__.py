"""Conventions that all scikit-learn estimators of `xgb_fed` share."""
