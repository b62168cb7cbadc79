"""SimFL (Li, Wen and He, AAAI 2020): gradients of similar rows of other parties.

Does not import `xgb_fed.horizontal.exact`.
"""
