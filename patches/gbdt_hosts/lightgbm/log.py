"""Messages printed in LightGBM's own way, so that `lightgbm.register_logger` and `verbosity` govern them."""

from __future__ import annotations

import lightgbm.basic


def log_info(message: str) -> None:
    """Print a line through LightGBM's logger."""
    lightgbm.basic._log_info(message)
