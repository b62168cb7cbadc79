"""Guarantees of private training with columns apart, by whom they hold towards, and its traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gbdt_commons.html_tables import html_table
from lgb_dp.accounting.cost import pair_text
from lgb_dp.accounting.gaussian import composed_mu, gaussian_epsilon
from lgb_dp.accounting.shares import CLOSENESS_SHARE


@dataclass(frozen=True)
class Guarantees:
    """ε of a run at its δ, by whom and for which change of one row.

    `world` is that of a row of the joined table that is added or removed, towards all who are no party.
    Towards the other party, which knows who is in both tables, `left_out` is that of a row's values that are
    left out, `replaced` of values that are replaced by others, and `label_unchanged` of values that are
    replaced while the label stays, so whenever the other party's columns alone differ.
    """

    delta: float
    world: float
    left_out: float
    replaced: float
    label_unchanged: float

    @classmethod
    def of(
        cls, trees: float, counts: float, histograms: float, delta: float, *, is_binary: bool
    ) -> Guarantees:
        """Of a run whose releases have the given μ together: all trees, the label counts, and the histograms.

        Leaving out moves sums of trees by one bounded pair, counts by one row: μ of each, composed. Replacing
        moves the sums by the difference of two pairs, at most 2μ, and counts by that of two unit vectors that
        are not negative, at most √2μ. Binary labels fix the sign of g, so pairs lie in one quarter of the
        ellipse, at most √2μ apart, and label counts stay (`lgb_dp.vertical.noise`).
        """
        root = math.sqrt(2.0) * (1 + 1e-12)
        same = (root if is_binary else 2.0) * trees
        whole = composed_mu([trees, counts, histograms])
        other = composed_mu([2.0 * trees, root * counts, root * histograms])
        unchanged = composed_mu([same, root * histograms])
        of_mu = [
            (1 + CLOSENESS_SHARE) * gaussian_epsilon(mu, delta) for mu in (whole, whole, other, unchanged)
        ]
        return cls(delta, *of_mu)

    def notes(self) -> list[str]:
        """The guarantees in words, their limit first."""
        world, left_out, replaced, same = (
            pair_text(epsilon, self.delta)
            for epsilon in (self.world, self.left_out, self.replaced, self.label_unchanged)
        )
        return [
            "columns apart: the guarantees hold for parties that follow the protocol; one that deviates can "
            "read single values of the other's",
            "this run's releases: towards the world, one row of the joined table added or removed: " + world,
            "towards the other party, which knows who is in both tables: one row's values left out: "
            f"{left_out}; replaced: {replaced}; replaced with the label unchanged: {same}",
            "each party adds the whole noise, and each guarantee counts the noise of one party alone",
            "predictions of rows by both parties are outside of epsilon: the party that asks learns a label "
            "or a rounded number about a row of a model, at most 5 bits if it deviates, and more by consent",
        ]


@dataclass
class MaskedTraffic:
    """Bytes and messages that left either party; all of a round is masked but its opened sums.

    Attributes
    ----------
    flows : dict
        (sender, receiver) to [messages, bytes].
    """

    flows: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def count(self, sender: str, receiver: str, n_bytes: int) -> None:
        """Add one message; each sender's thread counts its own."""
        flow = self.flows.setdefault((sender, receiver), [0, 0])
        flow[0] += 1
        flow[1] += n_bytes

    def bytes_from(self, sender: str) -> int:
        """Bytes that left a party."""
        return sum(flow[1] for (name, _), flow in self.flows.items() if name == sender)

    def to_dicts(self) -> list[dict[str, object]]:
        """One row per direction, for a data frame."""
        return [
            {"from": sender, "to": receiver, "messages": flow[0], "bytes": flow[1], "content": "masked"}
            for (sender, receiver), flow in self.flows.items()
        ]

    def __str__(self) -> str:
        return "\n".join(
            f"{row['from']} to {row['to']}: {row['messages']:,} messages, {row['bytes']:,} bytes, masked"
            for row in self.to_dicts()
        )

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        return html_table(self.to_dicts())
