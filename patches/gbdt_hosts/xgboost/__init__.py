"""XGBoost's undocumented surface: model trees, one tree at a time, metrics of given margins."""
