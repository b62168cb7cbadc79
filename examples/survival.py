"""
How long until the event?
=========================

Of patients who are still well, or have left the study, only a bound of the time is known.  Private
accelerated failure times learn from such rows, too: :class:`lgb_dp.DPLGBMSurvival`.
"""

# %%
# A cohort
# --------
#
# It is generated: age and treatment change the time to a relapse, and a third of the patients leave before.

import matplotlib.pyplot as plt
import numpy as np

import lgb_dp

random = np.random.default_rng(7)
n = 24_000
age, treated, marker = random.uniform(30, 80, n), random.random(n) < 0.5, random.normal(size=n)
X = np.column_stack([age, treated, marker]).astype(float)
log_years = 1.6 - 0.03 * (age - 55) + 0.6 * treated - 0.4 * np.maximum(marker, 0)
years = np.exp(log_years) * random.exponential(size=n) ** 0.6
followed = random.uniform(1, 12, n)
y = np.rec.fromarrays([years <= followed, np.minimum(years, followed)], names=["relapse", "years"])

bounds = {0: (30, 80), 1: (0, 1), 2: (-4, 4)}
train, test = slice(0, 20_000), slice(20_000, None)
model = lgb_dp.DPLGBMSurvival(epsilon=1.0, delta=1e-6)
model.fit(X[train], y[train], bounds=bounds, label_bounds=(0.02, 12))
print(f"concordance {model.score(X[test], y[test]):.3f}")
print(f"median of the first patient {model.predict(X[test][:1])[0]:.1f} years")
print(model.privacy_)

# %%
# Curves by risk
# --------------
#
# Kaplan and Meier's estimates of test rows, in thirds of their predicted medians, beside the mean of the
# predicted curves.


def kaplan_meier(rows):
    order = np.sort(rows, order="years")
    at_risk = len(order) - np.arange(len(order))
    return order["years"], np.cumprod(1 - order["relapse"] / at_risk)


grid = np.linspace(0, 10, 101)
median = model.predict(X[test])
thirds = np.digitize(median, np.quantile(median, [1 / 3, 2 / 3]))
for third, name in enumerate(("high risk", "middle", "low risk")):
    rows = thirds == third
    at, alive = kaplan_meier(y[test][rows])
    (line,) = plt.step(at, alive, where="post", label=f"{name}, observed")
    predicted = model.predict_survival_function(X[test][rows], grid).mean(axis=0)
    plt.plot(grid, predicted, "--", color=line.get_color(), label=f"{name}, predicted")
plt.xlim(0, 10)
plt.ylim(0, 1)
plt.xlabel("years")
plt.ylabel("share without relapse")
plt.legend()
plt.show()

# %%
# Without test rows
# -----------------
#
# A fifth of the rows, held out by the fit itself, gives such curves and the concordance within the same ε.

model = lgb_dp.DPLGBMSurvival(epsilon=1.0, delta=1e-6, validation_fraction=0.2)
model.fit(X[train], y[train], bounds=bounds, label_bounds=(0.02, 12))
print(model.evaluation_)
model.evaluation_.plot()
plt.show()
