"""The root of every exception that veilboost's packages raise on purpose."""


class VeilboostError(Exception):
    """Base of all refusals and failures that veilboost's packages name.

    Anything else that escapes from them is a defect worth reporting.
    """
