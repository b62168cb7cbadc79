"""Training where columns lie apart: ciphers, alignment, equality with XGBoost, speed, faults."""
