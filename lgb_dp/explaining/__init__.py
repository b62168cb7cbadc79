"""What a private model says of its features, and how far that stands out of its own noise, at no ε.

Everything here follows from a model's text: no row is read, nothing is charged.
"""
