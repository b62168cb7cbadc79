"""The splits of models that a party in this process keeps, by way of the files that it writes."""

from pathlib import Path
from tempfile import TemporaryDirectory

from xgb_fed.vertical.protocol.splits import Splits


def splits_of(party):
    """A party's splits, one for each of its models."""
    with TemporaryDirectory() as folder:
        party.save_model(folder)
        return [Splits.load(path) for path in sorted(Path(folder).glob("*.splits.json"))]


def give_splits(one, other):
    """Let another object of the same party predict."""
    with TemporaryDirectory() as folder:
        one.save_model(folder)
        other.load_model(folder)
