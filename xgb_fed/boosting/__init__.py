"""What XGBoost does: parameters, objectives, features, gains, the training loop."""
