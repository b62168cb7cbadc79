"""The only place that touches what LightGBM and XGBoost do not document.

Private attributes, model text and model trees are read and written here:
`gbdt_hosts.lightgbm` for LightGBM 4.2 and newer 4.x, `gbdt_hosts.xgboost` for
XGBoost 2.0 to 3.4.  Importing one does not import the other.
"""
