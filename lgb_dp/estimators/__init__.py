"""Scikit-learn estimators that train private LightGBM models."""
