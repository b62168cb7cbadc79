"""Plan files and tables: what an organisation declares before a run.

Imported by `veilboost.running` and `veilboost.serving`.
"""
