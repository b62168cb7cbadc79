"""Every objective of private training: a loss is a module, an entry here, and a row of docs/newton.md."""

from __future__ import annotations

import math
from functools import partial

from lgb_dp.checks import POSITIVE, PROPER_SHARE, Interval
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import LOG_ODDS_REACH, Loss, bounded_loss
from lgb_dp.losses.objective import OBJECTIVES, SEVERAL_TARGETS, Objective
from lgb_dp.losses.regression import (
    LOG_REACH,
    absolute_error,
    huber_error,
    huber_loss,
    log_link_loss,
    pinball_error,
    quantile_loss,
)
from lgb_dp.losses.survival import LAWS, OWN_SCALE, survival_loss

_ROOTS = ("l2_root", "root_mean_squared_error", "rmse")
_SHARE = "alpha", PROPER_SHARE
_CLASSES = partial(Objective, is_regression=False, reach=LOG_ODDS_REACH)
# With a logarithmic link the noise of the scores makes predictions exp(F) too large, so that small steps gain
# much (docs/experiments/newton.md).
_LOG_LINK = partial(Objective, has_log_link=True, reach=LOG_REACH, rate_factor=0.25)

OBJECTIVES |= {
    one.name: one
    for one in (
        _CLASSES("binary", bounded_loss, is_log_loss=True, may_distil=True, model_line="{0} sigmoid:{2:g}"),
        # The softmax loss's Hessian diag(p) - pp' is at most twice its diagonal (Gershgorin), which leaf
        # values divide by.  Beyond ½, the steps of all classes together therefore overshoot.
        _CLASSES(
            "multiclass",
            bounded_loss,
            ("softmax",),
            is_log_loss=True,
            may_distil=True,
            largest_rate=0.5,
            model_line="{0} num_class:{1}",
        ),
        _CLASSES(
            "multiclassova",
            aliases=("multiclass_ova", "ova", "ovr"),
            model_line="{0} num_class:{1} sigmoid:{2:g}",
        ),
        # The square loss has its whole curvature wherever residuals are not clipped, so steps of the same
        # rate go about twice as far as those of the logistic loss, whose hessians are at most a quarter.
        Objective(
            "regression",
            bounded_loss,
            ("regression_l2", "l2", "mean_squared_error", "mse", *_ROOTS),
            rate_factor=0.5,
            may_distil=True,
            is_deep_apart=True,
        ),
        Objective(
            SEVERAL_TARGETS,
            bounded_loss,
            rate_factor=0.5,
            may_distil=True,
            has_targets=True,
            unmeasured="several targets",
            model_line="regression",
        ),
        Objective(
            "regression_l1",
            quantile_loss,
            ("l1", "mean_absolute_error", "mae"),
            rate_factor=0.7,
            error=absolute_error,
        ),
        Objective("huber", huber_loss, (), ("alpha", POSITIVE), rate_factor=0.5, error=huber_error),
        Objective("quantile", quantile_loss, (), _SHARE, rate_factor=0.7, error=pinball_error),
        _LOG_LINK("poisson", partial(log_link_loss, 1.0)),
        _LOG_LINK("gamma", partial(log_link_loss, 2.0), lowest_is_positive=True),
        _LOG_LINK(
            "tweedie", partial(log_link_loss, None), (), ("tweedie_variance_power", Interval(1, 2, "[)"))
        ),
        # LightGBM knows no times to events; models predict exp(F) as gamma's do.
        *(
            Objective(
                f"aft_{law}",
                survival_loss,
                (),
                (OWN_SCALE, Interval(0, math.inf, "[)")),
                has_log_link=True,
                lowest_is_positive=True,
                labels_are_times=True,
                unmeasured="censored times",
                model_line="gamma",
            )
            for law in LAWS
        ),
    )
}


def loss_of(scale: LabelScale, gradient_clip: float | None, hessian_share: float, mu: float) -> Loss:
    """The loss of NewtonBoost for an objective that has one, by a label's scale.

    A clip of None leaves it to the loss; `hessian_share` is s in [0, 1), and μ that of the whole budget.
    `InvalidArgumentError` if the clip, or the objective's own parameter, is not accepted.
    """
    make = scale.entry.make_loss
    assert make is not None
    loss: Loss = make(scale, gradient_clip, hessian_share, mu)
    return loss
