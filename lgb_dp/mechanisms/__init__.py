"""Noise, private selection, and the randomness behind them."""
