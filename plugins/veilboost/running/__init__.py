"""Runs that the command starts, one module per way of training, and predictions."""
