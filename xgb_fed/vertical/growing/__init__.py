"""The active party growing one tree: gradients, candidates of all parties, the chosen splits."""
