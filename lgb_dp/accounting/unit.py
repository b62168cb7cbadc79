"""The unit of privacy: whose presence or absence the guarantee hides."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_RELATION = re.compile(
    r"add or remove one (?P<noun>row|person)(?P<one> at one party)?"
    r"( at each of up to (?P<parties>\d{1,100}) parties)?( \(at most (?P<rows>\d{1,100}) rows\))?"
)


HELD_OUT = "held-out rows"
"""Name of releases of rows that train nothing."""


@dataclass(frozen=True)
class Unit:
    """One row, or one person with several rows, in one place or at several parties.

    Two units are equal if data sets that differ by one of them do, so whatever a release costs per unit.

    Parameters
    ----------
    rows : int or None
        Rows of a person at most; None if the unit is one row.
    row_costs : int
        How many times what a release costs per row it costs per unit: `rows`, or 1 if a person's rows
        together weigh no more than one row.  A μ-GDP mechanism is kμ-GDP, and an ε-DP one kε-DP, for groups
        of k rows (Dong, Roth and Su, "Gaussian Differential Privacy", JRSS B 2022, theorem 2.14; Dwork and
        Roth, "The Algorithmic Foundations of Differential Privacy", 2014, theorem 2.2).
    parties : int or None
        Parties at which a person may have rows at most; None if all rows are in one place.
    """

    rows: int | None = None
    row_costs: int = field(default=1, compare=False)
    parties: int | None = None

    def at_parties(self, parties: int) -> Unit:
        """The unit of rows at several parties: a person's at m of them cost m times those at one."""
        return Unit(self.rows, self.row_costs * parties, parties)

    @property
    def noun(self) -> str:
        """The unit in a word."""
        return "row" if self.rows is None else "person"

    @property
    def neighbouring(self) -> str:
        """The neighbouring relation, as reports state it."""
        limit = "" if self.rows is None else f" (at most {self.rows} rows)"
        if self.parties is None:
            place = ""
        else:
            place = " at one party" if self.parties == 1 else f" at each of up to {self.parties} parties"
        return f"add or remove one {self.noun}{place}{limit}"

    @classmethod
    def of_relation(cls, text: str) -> Unit:
        """The unit that a report's neighbouring relation names, with `row_costs` 1; ValueError for any other
        text.
        """
        found = _RELATION.fullmatch(text)
        if found is not None:
            rows, parties = (found[name] and int(found[name]) for name in ("rows", "parties"))
            unit = cls(rows=rows or None, parties=1 if found["one"] else parties or None)
            if unit.neighbouring == text:
                return unit
        raise ValueError("a report states another neighbouring relation than those of this version")


ONE_ROW = Unit()
