"""
Claims of two companies' customers: an explained premium
========================================================

An insurer knows its customers' contracts and how many claims they had; a garage chain knows how they drive.
Together they train a Poisson model of the claim frequency and a Tweedie model of the claims' cost, with
categories at both parties and a premium that never falls with the mileage.  The models are XGBoost's on the
pooled columns, and SHAP values say what each column contributes to a customer's premium, although neither
party shows its columns.
"""

# %%
# Two parties
# -----------
#
# The customers are made up.  The garage consents to explanations of each of its columns
# (``allow_explanations="per-feature"``): it then tells, for each of its splits, which customers go left.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xgboost as xgb

import xgb_fed

random = np.random.default_rng(0)
N = 1500
regions, fuels = ["city", "coast", "hills", "plain"], ["diesel", "electric", "petrol"]
insurer = pd.DataFrame(
    {
        "age": random.integers(18, 80, N),
        "years without claims": random.integers(0, 20, N),
        "region": pd.Categorical.from_codes(random.integers(0, 4, N), regions),
    }
)
garage = pd.DataFrame(
    {
        "mileage": random.gamma(4, 4, N).round(1),
        "worn brakes": random.random(N).round(2),
        "fuel": pd.Categorical.from_codes(random.integers(0, 3, N), fuels),
    }
)
exposure = random.uniform(0.3, 1.0, N)
risk = 0.04 * garage["mileage"] + 0.8 * garage["worn brakes"] + (insurer["region"] == "city") * 0.5
risk += (insurer["age"] < 25) * 0.7 - 0.05 * insurer["years without claims"]
claims = random.poisson(exposure * np.exp(risk - 1.8))
frequency = claims / exposure
cost = np.array([random.gamma(2, 500, k).sum() for k in claims]) / exposure

party = xgb_fed.LocalParty(garage, "garage", enable_categorical=True, allow_explanations="per-feature")

# %%
# Training
# --------
#
# The garage's columns are named by their positions: it has told the insurer that column 0 is the mileage.  A
# weight is the part of the year that a customer was insured.

SETTINGS = {"max_depth": 3, "max_bin": 32, "learning_rate": 0.3}


def fitted(objective, target):
    """A model of both parties."""
    model = xgb_fed.VerticalXGBRegressor(
        n_estimators=10,
        objective=objective,
        base_score=float(target.mean()),
        enable_categorical=True,
        monotone_constraints={"garage:0": 1},
        cipher=xgb_fed.OkamotoUchiyama(),
        **SETTINGS,
    )
    return model.fit(insurer, target, parties=[party], sample_weight=exposure)


model, costs = fitted("count:poisson", frequency), fitted("reg:tweedie", cost)
print(f"claims per year: {frequency.mean():.3f}, predicted {model.predict(insurer).mean():.3f}")
print(f"cost per year: {cost.mean():.0f}, predicted {costs.predict(insurer).mean():.0f}")

# %%
# One customer's premium
# ----------------------
#
# Contributions add up to the logarithm of the predicted frequency.  A passive party's split shows its number
# only, the insurer's own splits their conditions.

explanation = model.explain(insurer)
customer = int(model.predict(insurer).argmax())
names = [*explanation.feature_names, "bias"]
for name, value in zip(names, explanation.contributions[customer], strict=True):
    print(f"{name:>24} {value:+.3f}")
for step in model.model_.decision_paths(insurer, [party]).of_row(customer)[:4]:
    print(step)

# %%
# What matters
# ------------
#
# On the left, the mean size of the contributions.  On the right, the premium of one customer, that is the
# expected cost, for other mileages: it never falls.  The garage answers with its columns of these rows.

size = np.abs(explanation.contributions[:, :-1]).mean(axis=0)
order = np.argsort(size)
_, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.barh([names[k] for k in order], size[order])
left.set_xlabel("mean |contribution|")
others = garage.iloc[[customer] * 60].assign(mileage=np.linspace(0, 40, 60)).reset_index(drop=True)
same = insurer.iloc[[customer] * 60].reset_index(drop=True)
premium = costs.predict(same, [party.with_rows(others)])
right.step(others["mileage"], premium, where="post")
right.set(xlabel="mileage, 1,000 km per year", ylabel="premium", ylim=(0, None))
plt.show()
if (np.diff(premium) < 0).any():
    raise SystemExit("the premium FALLS with the mileage")

# %%
# The same as pooled XGBoost
# --------------------------
#
# Had the two companies pooled their columns, stock XGBoost would give the same contributions.

pooled = pd.concat([insurer, garage], axis=1)
matrix = xgb.QuantileDMatrix(pooled, label=frequency, max_bin=32, enable_categorical=True)
matrix.set_weight(exposure)
parameters = {
    "objective": "count:poisson",
    "base_score": float(frequency.mean()),
    "monotone_constraints": {"mileage": 1},
    **SETTINGS,
}
booster = xgb.train(parameters, matrix, 10)
theirs = booster.predict(xgb.DMatrix(pooled, enable_categorical=True), pred_contribs=True)
difference = float(np.abs(explanation.contributions - theirs).max())
print(f"largest difference from pooled XGBoost's SHAP values: {difference:.1e}")
if difference > 1e-5:
    raise SystemExit("DIFFERENT from pooled XGBoost")
