"""Pages to look at, such as a model's card."""
