"""Data sets with public bins, folds, weights, and private metadata."""
