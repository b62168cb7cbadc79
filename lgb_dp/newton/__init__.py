"""NewtonBoost: Newton boosting with public structures and Gaussian leaf sums."""
