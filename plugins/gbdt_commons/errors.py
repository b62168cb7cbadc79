"""The root of every exception that veilboost's packages raise on purpose, and that of kept state."""


class VeilboostError(Exception):
    """Base of all refusals and failures that veilboost's packages name.

    Anything else that escapes from them is a defect worth reporting.
    """


class StoreError(VeilboostError, ValueError):
    """A store of kept state is damaged, in use, foreign, or of another release; it stays as it is.

    The text names the file without its folder, since it may go to another party.
    """
