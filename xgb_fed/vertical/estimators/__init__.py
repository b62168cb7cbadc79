"""scikit-learn estimators of vertical training."""
