"""Private training across organisations that have the same columns and different rows.

Every party adds noise to the sums over its own rows and masks them, so that only the noised sum over all
parties is ever seen (`gbdt_parties.secure_sum`, `lgb_dp.accounting.shares`).
"""

from gbdt_commons.public.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__, __all__ = _lazy_names(globals(), before="gbdt_hosts.lightgbm.host")
