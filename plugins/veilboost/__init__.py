"""The command `veilboost`, and plan files."""
