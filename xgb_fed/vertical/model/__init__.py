"""The trained vertical model: prediction, saving, export to a native booster."""
