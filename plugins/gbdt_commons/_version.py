"""The version of every package of this distribution; `pyproject.toml` reads it from here."""

__version__ = "0.2.0"
