"""The command `veilboost`, and plan files."""

from gbdt_commons._version import __version__ as __version__
