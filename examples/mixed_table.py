"""
A table of mixed columns
========================

Real tables hold numbers, texts, dates and gaps.  This example trains :class:`lgb_dp.DPLGBMClassifier` on a
polars frame as it is, saves the model, and predicts in a second process that has nothing but the model file.
pandas frames and pyarrow tables work in the same way.
"""

# %%
# The table
# ---------
#
# The rows are generated: who cancels a contract.  Some ages, cities and dates are missing.

import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from sklearn.metrics import roc_auc_score

import lgb_dp

CITIES = ["Bergen", "Oslo", "Turku", "Umeå"]
rng = np.random.default_rng(0)
n = 24_000

age = rng.normal(45, 15, n).clip(18, 95).round()
city = rng.choice([*CITIES, "elsewhere"], n, p=[0.3, 0.3, 0.2, 0.195, 0.005])
since = np.datetime64("2016-01-01") + rng.integers(0, 3500, n).astype("timedelta64[D]")
spends = rng.lognormal(3, 1, n)
is_member = rng.random(n) < 0.4
years = (np.datetime64("2026-01-01") - since).astype(float) / 365
score = 1.2 * (city == "Oslo") - 0.25 * years + 0.02 * spends - 0.8 * is_member + 0.02 * (age - 45)
cancels = (score + rng.logistic(0, 0.7, n) > 0).astype(int)

customers = pl.DataFrame(
    {"age": age, "city": city, "since": since, "spends": spends, "is_member": is_member}
).with_columns(
    pl.when(pl.Series(rng.random(n) > 0.05)).then(pl.col(name)).alias(name)
    for name in ("age", "city", "since")
)
train, test = customers[:20_000], customers[20_000:]
print(test.head())

# %%
# What is public
# --------------
#
# Names and types of columns are public.  Bounds and categories are declared, dates by dates; the truth values
# need nothing.  Nobody knows bounds of what customers spend, so a tenth of the budget buys them:
# ``auto_bounds``.  Cities that are not declared count as missing, and gaps stay gaps.

model = lgb_dp.DPLGBMClassifier(epsilon=2.0, delta=1e-6, auto_bounds=0.1)
model.fit(
    train,
    cancels[:20_000],
    bounds={"age": (18, 100), "since": (date(2015, 1, 1), date(2026, 1, 1))},
    categories={"city": CITIES},
)
print(model.privacy_)
probability = model.predict_proba(test)[:, 1]
print(f"test AUC {roc_auc_score(cancels[20_000:], probability):.3f}")

# %%
# Columns are found by their names, in whatever order they come, and what is missing is named.

turned = test.select("is_member", "spends", "since", "city", "age")
assert np.array_equal(model.booster_.predict(turned), model.booster_.predict(test))
try:
    model.booster_.predict(test.drop("city"))
except lgb_dp.InvalidArgumentError as error:
    print(error)

# %%
# A second process
# ----------------
#
# The model file holds the categories and the types of the columns.  :class:`lgb_dp.DPBooster` reads it,
# encodes new tables as training did, and knows the guarantee.

with tempfile.TemporaryDirectory() as folder:
    model.booster_.save_model(Path(folder, "model.txt"))
    test.write_parquet(Path(folder, "new.parquet"))
    script = """
import numpy, polars, lgb_dp
model = lgb_dp.DPBooster(model_file="model.txt")
numpy.save("found.npy", model.predict(polars.read_parquet("new.parquet")))
print(model.privacy)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    )
    found = np.load(Path(folder, "found.npy"))
print(f"the second process says: {done.stdout.strip()}")
assert np.array_equal(found, probability)

# %%
# What the model learned
# ----------------------
#
# Contributions of the columns to the score, of the rows in each city and of all rows by date.

contributions = model.booster_.predict(test, pred_contrib=True)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
names = [*CITIES, "elsewhere", "missing"]
of_city = test["city"].fill_null("missing").to_numpy()
left.bar(names, [contributions[of_city == name, 1].mean() for name in names])
left.set_ylabel("contribution to the score")
left.set_title("city")
left.tick_params(axis="x", rotation=30)
right.plot(test["since"].to_numpy(), contributions[:, 2], ".", markersize=2)
right.set_title("since")
figure.tight_layout()
plt.show()
