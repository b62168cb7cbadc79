"""Train a private and a vertical model with what is installed, and check that nothing came from elsewhere.

python scripts/trial_training.py FOLDER: the packages must have been imported from below the folder.
"""

import sys
import warnings

import lightgbm
import numpy as np

import gbdt_commons
import gbdt_hosts
import gbdt_kernels
import gbdt_parties
import lgb_dp
import veilboost.command_line
import xgb_fed

for package in (gbdt_commons, gbdt_hosts, gbdt_kernels, gbdt_parties, lgb_dp, veilboost, xgb_fed):
    assert package.__file__.startswith(sys.argv[1]), package.__file__
warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
X = np.random.default_rng(0).normal(size=(600, 4))
y = (X.sum(axis=1) > 0).astype(float)
data = lgb_dp.Dataset(X, y, bounds=([-4.0] * 4, [4.0] * 4))
trainer = lgb_dp.NewtonBoost(epsilon=5.0, delta=1e-5)
booster = lightgbm.train({"objective": "binary", "verbose": -1}, data, 5, callbacks=[trainer])
assert 0 < booster.privacy.epsilon <= 5
party = xgb_fed.LocalParty(X[:, 2:], "bank", allow_export=True)
model = xgb_fed.VerticalXGBClassifier(n_estimators=2, max_depth=2, max_bin=8, cipher=xgb_fed.Plain())
model.fit(X[:, :2], y, parties=[party])
assert model.export_booster().num_boosted_rounds() == 2
print("trained")
