"""Differentially private training: time, accuracy, and private peers."""
