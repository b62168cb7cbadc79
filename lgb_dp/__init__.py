"""Differentially private gradient boosting inside ``lightgbm.train``."""

from gbdt_commons._version import __version__ as __version__
from gbdt_commons.public.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__, __all__ = _lazy_names(globals(), before="gbdt_hosts.lightgbm.host")
