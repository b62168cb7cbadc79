"""XGBoost models trained across organisations under encryption.

Names are loaded when they are first used: a party that only aligns rows does not wait for compilers.
"""

from gbdt_commons._version import __version__ as __version__
from gbdt_commons.public.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__, __all__ = _lazy_names(globals())
