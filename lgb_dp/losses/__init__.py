"""Losses with bounded gradients: the sensitivity of a row, the released label counts, facts of objectives."""

import lgb_dp.losses.registry  # noqa: F401  fills the table of objectives
