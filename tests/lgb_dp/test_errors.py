"""Errors and warnings are public."""

import lgb_dp
from lgb_dp import errors


def test_every_error_and_warning_is_public_and_errors_have_one_root():
    named = {k: v for k, v in vars(errors).items() if getattr(v, "__module__", "") == errors.__name__}
    assert named.keys() <= set(lgb_dp.__all__)
    for name, kind in named.items():
        assert issubclass(kind, lgb_dp.PrivateTrainingError if name.endswith("Error") else UserWarning)
