"""How packages present their public names and parameters."""
