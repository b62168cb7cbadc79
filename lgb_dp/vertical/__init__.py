"""Training by two parties with different columns of the same rows, of which either learns the model alone."""
