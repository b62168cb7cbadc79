"""DPBoost (Li et al., AAAI 2020) and the baselines of its paper."""
