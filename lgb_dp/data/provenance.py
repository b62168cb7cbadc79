"""Cost or leakage of knowledge that looks public but comes from private rows.

A `Provenance` is part of the bins, and so goes wherever they go: to data sets with a `reference`, evaluation
sets, subsets, copies and pickles.  Nothing returns it separately, where a caller could drop it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lgb_dp.accounting.report import PrivacyReport


@dataclass(frozen=True)
class Provenance:
    """Where knowledge of the data comes from.

    `leaks` are values that were read from private data without noise: each voids the guarantee. `notes` are
    assumptions and limits of the guarantee, `paid_for` costs of private releases, each charged to every model
    that is trained on the rows.
    """

    leaks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    paid_for: tuple[PrivacyReport, ...] = ()

    def joined(self, other: Provenance) -> Provenance:
        """Both together; the same report, which is the same object, is charged once.

        Reports that are equal but not the same object are two releases that cost the same.
        """
        return Provenance(
            tuple(dict.fromkeys(self.leaks + other.leaks)),
            tuple(dict.fromkeys(self.notes + other.notes)),
            tuple({id(report): report for report in self.paid_for + other.paid_for}.values()),
        )
