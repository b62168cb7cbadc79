"""Effects and importances of a private model's features, beside its own noise, at no ε.

Everything here follows from a model's text: no row is read, nothing is charged.
"""
