"""Private training by two parties with different columns of the same rows; both learn the model alone."""
