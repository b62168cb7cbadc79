import os

# On a busy machine, threads of LightGBM and XGBoost that wait by spinning make tests slower by factors.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from hypothesis import settings

# A busy machine is no error: examples may take as long as they like.
settings.register_profile("veilboost", deadline=None)
settings.load_profile("veilboost")
