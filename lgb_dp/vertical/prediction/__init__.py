"""Predictions of new rows by two parties, one asking the other; none of it is part of ε.

Modules, from the ground up: `answers` (points, and tables of answers at them), `rows` (names of rows),
`consent` (what is answered, and how often), `models` (each party's part of a score), `answering` (the party
with columns alone), `asking` (the party with the labels) and `questions` (both at the ends of a connection).
"""
