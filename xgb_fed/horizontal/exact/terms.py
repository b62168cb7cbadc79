"""Terms of an organisation for exact training, and its own side of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gbdt_commons.files import digest_of
from gbdt_parties.identity.certificates import TLS
from gbdt_parties.secure_sum.trust import AllowList, Credentials, credentials_of
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.common.rows import HorizontalRows
from xgb_fed.horizontal.exact.cuts import DIGITS
from xgb_fed.horizontal.exact.rows.samples import MAX_SAMPLES
from xgb_fed.horizontal.exact.task import GIVEN, MIN_ROWS_PER_NODE, check_whole


@dataclass(frozen=True)
class ExactTerms:
    """Terms of a party for exact training: its demands, and its means beside its rows.

    Parameters
    ----------
    min_rows_per_node : int, default=10
        Rows of all parties that a node must have, at least, before more than its sums is asked for; and rows
        of this party, at least, to train on, in each sample, left out of it, and in each of its held-out sets
        but in no other set.  Training runs with a lower minimum are refused.
    min_parties : int, default=2
        Parties that must take part, at least.  Of two parties, each learns the other's sums.
    cuts : sequence of str, default=("grid",)
        How columns may be cut: "grid", "exact", "given". The author of given cuts can choose bins that few
        rows are in, and learn their labels from the sums.
    max_bin : int, default=256
        Bins of a column, at most; more bins have fewer rows each.
    max_samples : int, default=10_000
        Samples of rows that trees are grown on with ``subsample``, one for each round and class, in all
        training runs together; 0 takes part with all rows only.  Runs that differ in other settings have the
        same samples.
    held_out : sequence of (X, y) or (X, y, sample_weight), default=()
        Sets of rows that metrics are computed of, as means over all parties' rows in them; a place can be
        None where others have rows.  A set is the same as another one, or has rows that no other one has.
    tls : TLS or path, optional
        The party's certificate and key, and the authorities that it trusts.  Without it, it signs with a
        certificate of its own making, which is for parties in one process.
    allowed : sequence of str, optional
        Whom it adds its numbers to: ``sha256:`` and a certificate's fingerprint, or names with
        `trust_authority`.  Required with `tls`.
    trust_authority : bool, default=False
        Whether names are enough: the operator of the authority can then be all other parties.

    Raises
    ------
    InvalidArgumentError, PartyArgumentError
        Naming the argument.

    Examples
    --------
    >>> import numpy as np
    >>> from xgb_fed import ExactTerms, HorizontalParty
    >>> X, y = np.zeros((20, 3)), np.arange(20) % 2
    >>> HorizontalParty(X, y, "north", categorical_labels=True, exact=ExactTerms(min_parties=3))
    HorizontalParty('north', 20 rows, 3 columns)
    """

    min_rows_per_node: int = MIN_ROWS_PER_NODE
    min_parties: int = 2
    cuts: Sequence[str] = ("grid",)
    max_bin: int = 256
    held_out: Sequence[Any] = ()
    tls: TLS | str | Path | None = None
    allowed: Sequence[str] | None = None
    trust_authority: bool = False
    max_samples: int = MAX_SAMPLES

    def __post_init__(self) -> None:
        check_whole("min_rows_per_node", self.min_rows_per_node, 1)
        check_whole("min_parties", self.min_parties, 2)
        check_whole("max_bin", self.max_bin, 2)
        check_whole("max_samples", self.max_samples, 0)
        if isinstance(self.cuts, str) or not set(self.cuts) <= {*DIGITS, GIVEN}:
            raise InvalidArgumentError(f"cuts={self.cuts!r} must be some of {[*DIGITS, GIVEN]}")
        if self.tls is not None and self.allowed is None:
            raise InvalidArgumentError(
                "allowed=None would accept every party that the authority vouches for; "
                "name the other parties by 'sha256:' and the fingerprints of their certificates"
            )
        for k, given in enumerate(self.held_out):
            if given is not None and not (isinstance(given, (tuple, list)) and len(given) in (2, 3)):
                raise InvalidArgumentError(f"held_out[{k}] must be (X, y), (X, y, sample_weight) or None")


@dataclass(frozen=True, eq=False)
class ExactSide:
    """A party's side of all its exact training runs; it has no credentials without a certificate."""

    terms: ExactTerms
    rows: HorizontalRows
    held_out: list[HorizontalRows | None]
    certified: Credentials | None
    allowed: AllowList

    @classmethod
    def of(cls, terms: ExactTerms, rows: HorizontalRows) -> ExactSide:
        """Check what a party brings."""
        certified, trust = None, terms.trust_authority
        if terms.tls is None:
            allowed = AllowList(terms.allowed, trust_authority=trust)
        else:
            own = rows.name, terms.tls, terms.allowed, trust
            certified, allowed = credentials_of(*own, InvalidArgumentError)
        held_out = []
        for k, given in enumerate(terms.held_out):
            held_out.append(None if given is None else rows.like(*given, argument=f"held_out[{k}]"))
        return cls(terms, rows, held_out, certified, allowed)

    def credentials(self) -> Credentials:
        """Credentials that the party signs a session's keys with."""
        return self.certified or Credentials.self_signed(self.rows.name)

    @cached_property
    def digest_of_rows(self) -> str:
        """Names the rows to train on: samples are drawn from these."""
        return self.rows.digest()

    @cached_property
    def digest(self) -> str:
        """Names all rows: a run goes on with those that it began with."""
        return digest_of(
            self.digest_of_rows, *(None if rows is None else rows.digest() for rows in self.held_out)
        )
