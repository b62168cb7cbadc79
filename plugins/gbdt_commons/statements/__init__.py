"""Statements: what a model guarantees, for readers who did not train it, as a page, JSON and YAML."""
