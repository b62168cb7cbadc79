"""MBoost: boosting with the M-loss (Nock and Henecka), and the forests of its paper."""
