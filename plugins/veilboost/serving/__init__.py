"""Parties that the command serves, one module per way of training."""
