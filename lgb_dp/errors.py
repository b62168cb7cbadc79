"""Warnings and errors of lgb_dp."""


class PrivacyLeakWarning(UserWarning):
    """Something that must be public was read from private data; the guarantee is void."""


class NotPrivateWarning(UserWarning):
    """Something the user asked for is not covered by the guarantee."""


class UnsupportedParameterError(ValueError):
    """A LightGBM parameter that private training cannot honour."""


class NoGuaranteeError(ValueError):
    """A model carries no privacy guarantee."""


class AlteredModelError(ValueError):
    """A model's trees are not those its privacy guarantee speaks of."""
