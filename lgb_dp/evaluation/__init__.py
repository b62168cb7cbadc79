"""Figures of how good a private model is, from one table that was released of rows held out of training."""
