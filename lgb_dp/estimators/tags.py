"""Declarations of the estimators to scikit-learn: tags, and checks of its suite that cannot pass."""

from __future__ import annotations

from collections.abc import Mapping

_NO_WEIGHT_BOUND = "row weights need a public weight_bound, which the check does not give"
_ROWS_AND_WEIGHTS = "repeating a row and doubling its weight are different releases; " + _NO_WEIGHT_BOUND

EXPECTED_FAILED_CHECKS: Mapping[str, str] = {
    "check_sample_weights_pandas_series": _NO_WEIGHT_BOUND,
    "check_sample_weights_not_an_array": _NO_WEIGHT_BOUND,
    "check_sample_weights_list": _NO_WEIGHT_BOUND,
    "check_sample_weights_shape": _NO_WEIGHT_BOUND,
    "check_sample_weights_not_overwritten": _NO_WEIGHT_BOUND,
    "check_all_zero_sample_weights_error": _NO_WEIGHT_BOUND,
    "check_sample_weights_invariance": _ROWS_AND_WEIGHTS,
    "check_sample_weight_equivalence_on_dense_data": _ROWS_AND_WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": _ROWS_AND_WEIGHTS,
    "check_classifiers_one_label_sample_weights": _NO_WEIGHT_BOUND,
}
"""Checks of scikit-learn's suite that fail on purpose, each with its reason."""
