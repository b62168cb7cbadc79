"""Speed, accuracy and faults of the project beside named peers; run a file by its path.

`common` holds data, reports and measurements of every trainer, `private` differential privacy, `vertical`
columns that lie apart, and `federated` rows that lie apart.
"""
