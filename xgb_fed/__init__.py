"""XGBoost models trained across organisations under encryption (in preparation)."""
