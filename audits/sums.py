"""Secure sums and two-party transfers against second, slow implementations, on the same keys.

Secure sums: every byte that a party sends is worked out again by `slow_sums`, its signature is checked
there, and the opened sums are those of plain integers.  Transfers: rows, corrections and masked tables are
worked out again, one bit, block or row at a time, by `tests/support/two_party_oracle.py`, and the opened sums
of whole rounds are those of a loop over the rows.  Copies of the code with a fault must differ.

    python -m audits.sums --out out/audits/sums.json
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import gbdt_parties.secure_sum.contributions as contributions_module
import two_party_oracle as oracle
import two_party_sides as two
from audits import slow_sums as slow
from audits.outcome import PLANTED, Audit, Line, Piece, run
from gbdt_commons.key_stream import KeyStream
from gbdt_kernels.transfers.columns import choice_words
from gbdt_parties.errors import TransferCheckError
from gbdt_parties.secure_sum.contributions import Attempt, SecureSession
from gbdt_parties.secure_sum.encapsulations import PairSecrets
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.rings import Ring
from gbdt_parties.secure_sum.roster import Introduction, Roster
from gbdt_parties.secure_sum.trust import Credentials
from gbdt_parties.two_party.extension import Batch, TransferSender
from gbdt_parties.two_party.lookups import LookupReceiver, LookupSender, bits_of, keys_of
from gbdt_parties.two_party.names import Step
from gbdt_parties.two_party.pads import Pads
from gbdt_parties.two_party.rounds import PointSide, TableSide
from secure_sessions import pair_secrets

SLOW = "ours, slow"
LIMITS = (
    "the second implementations follow our own descriptions of what is hashed and signed: a description that "
    "is itself wrong stays unseen, as do time, memory, and the choice of certificates. Transfers use AES of "
    "the same library, and secrets by ML-KEM-768 are its own; base transfers are made up; "
    "whole rounds make them; sums are compared."
)
RINGS = (1, 17, 48, 63, 64, 128)


# Secure sums.


def differing_sums(random: np.random.Generator, n_sessions: int, n_values: int) -> tuple[int, int]:
    """Bytes, signatures and sums compared, and how many differ; sessions of 2 to 5 parties in all rings."""
    compared, differ = 0, 0
    for number in range(n_sessions):
        names = [f"party {i}" for i in range(int(random.integers(2, 6)))]
        keys = [SessionKeys() for _ in names]
        own = [Introduction.of(n, Credentials.self_signed(n), k) for n, k in zip(names, keys, strict=True)]
        roster = Roster(os.urandom(16), os.urandom(32), tuple(own))
        pairs = pair_secrets(roster, keys)
        parties = [SecureSession(k, roster, *one) for k, *one in zip(keys, own, pairs, strict=True)]
        members = tuple(
            sorted(random.choice(len(names), int(random.integers(2, len(names) + 1)), False).tolist())
        )
        # Two attempts of one round: masks of the second are others.
        for k in (1, 2):
            ring = Ring(RINGS[(number + k) % len(RINGS)])
            seen = one_sum(
                parties, keys, pairs, roster, Attempt(number, k, members, os.urandom(32)), ring, n_values
            )
            compared, differ = compared + seen[0], differ + seen[1]
    return compared, differ


def one_sum(
    parties: list[SecureSession],
    keys: list[SessionKeys],
    pairs: list[PairSecrets],
    roster: Roster,
    attempt: Attempt,
    ring: Ring,
    n_values: int,
) -> tuple[int, int]:
    """One sum at our side and at the slow one: things compared, and those that differ."""
    what = slow.attempt_bytes(attempt.round, attempt.number, attempt.members, attempt.question)
    public = [one.exchange_key for one in roster.introductions]
    kem_keys = [one.kem_key for one in roster.introductions]
    sent_by = [[pairs[k].ciphertexts[earlier] for earlier in range(k)] for k in range(len(pairs))]
    confirmed = slow.confirmed_roster(roster.digest, sent_by)
    octets = 8 * ring.words_per_value
    plain, sent, differ = [0] * n_values, {}, 0
    for place in attempt.members:
        numbers = [int.from_bytes(os.urandom(octets), "little") % (1 << ring.bits) for _ in range(n_values)]
        held = ring.from_bytes(b"".join(x.to_bytes(octets, "little") for x in numbers))
        sent[place] = parties[place].contribute(attempt, ring, held)
        plain = [(a + b) % (1 << ring.bits) for a, b in zip(plain, numbers, strict=True)]
        secret, own = keys[place].exchange.private_bytes_raw(), pairs[place]
        about = {k: kem_keys[min(k, place)] + sent for k, sent in own.ciphertexts.items()}
        again = slow.masked_vector(
            place, secret, public, own.secrets, about, attempt.members, confirmed, what, numbers, ring.bits
        )
        vector, signature = sent[place][12:-64], sent[place][-64:]
        differ += vector != b"".join(x.to_bytes(octets, "little") for x in again)
        text = slow.signed_text(confirmed, what, place, ring.bits, vector, n_values)
        differ += not slow.ed25519_holds(roster.introductions[place].signing_key, text, signature)
    opened = ring.to_bytes(parties[attempt.members[0]].add_up(attempt, ring, n_values, sent))
    differ += opened != b"".join(x.to_bytes(octets, "little") for x in plain)
    return 2 * len(attempt.members) + 1, differ


@contextmanager
def replaced(where: Any, **names: Any) -> Iterator[None]:
    """Names of a module or class that stand for something else meanwhile."""
    with ExitStack() as stack:
        for name, value in names.items():
            stack.enter_context(patch.object(where, name, value))
        yield


def sum_faults() -> dict[str, Any]:
    """Faults of secure sums; most leave the sums right."""
    honest, module = contributions_module.mask_stream, contributions_module
    add = Ring.add

    def without_carry(self: Ring, a: Any, b: Any) -> Any:
        return a + b if self.bits == 128 else add(self, a, b)

    return {
        "masks do not depend on the attempt": replaced(
            module, mask_stream=lambda s, pair, roster, attempt: honest(s, pair, roster, b"")
        ),
        "masks do not depend on the pair": replaced(
            module, mask_stream=lambda s, pair, roster, attempt: honest(s, b"", roster, attempt)
        ),
        "masks do not depend on the roster": replaced(
            module, mask_stream=lambda s, pair, roster, attempt: honest(s, pair, bytes(32), attempt)
        ),
        "masks do not depend on ML-KEM-768": replaced(
            module, mask_stream=lambda s, pair, roster, attempt: honest(s[:32], pair, roster, attempt)
        ),
        "all parties add their masks": replaced(
            module, signs=lambda own, others: dict.fromkeys((o for o in others if o != own), 1)
        ),
        "no masks": replaced(module, signs=lambda own, others: {}),
        "a carry is lost": replaced(Ring, add=without_carry),
        "signatures leave the attempt out": replaced(
            SecureSession, _what_is_signed=lambda self, attempt: b"veilboost secure sum contribution 2\0"
        ),
    }


# Transfers.


def differing_transfers(random: np.random.Generator, n_batches: int) -> tuple[int, int]:
    """Messages and rows of batches of transfers, and whether an inconsistent batch is refused."""
    compared, differ = 0, 0
    for _ in range(n_batches):
        sides = two.transfer_sides()
        seeds = [[seed.tobytes() for seed in block] for block in sides.seeds]
        delta = two.delta_of(sides.difference)
        for batch in (Batch(Step(2, 0, 1), 3), Batch(Step(2, 0, 1), 4), Batch(Step(2, 1, 1), 0)):
            n_words = int(random.integers(1, 4))
            choices, key = two.drawn(n_words), os.urandom(32)
            t, message = sides.receiver.extend(batch, choices, KeyStream(key))
            n_bits = 64 * (n_words + n_words % 2 + 2)
            spare = KeyStream(key).words(n_bits // 64 - n_words)
            chosen = int.from_bytes(choices.tobytes() + spare.tobytes(), "little")
            rows, expected = oracle.transfers_message(sides.context, seeds, batch, chosen, n_bits)
            q = two.as_integers(sides.sender.extend(batch, n_words, message))
            right = [rows[i] ^ delta * (chosen >> i & 1) for i in range(64 * n_words)]
            differ += (message != expected) + (two.as_integers(t) != rows[: 64 * n_words]) + (q != right)
            compared += 3
        bad = bytearray(sides.receiver.extend(Batch(Step(3, 0, 1), 0), two.drawn(1), KeyStream())[1])
        # One bit of every block's correction turned: it cannot pass by a guess of less than 32 bits.
        for block in range(32):
            bad[block * (len(bad) - 48) // 32] ^= 1
        try:
            sides.sender.extend(Batch(Step(3, 0, 1), 0), 1, bytes(bad))
            differ += 1
        except TransferCheckError:
            pass
        compared += 1
    return compared, differ


def differing_lookups(random: np.random.Generator, n_lookups: int) -> tuple[int, int]:
    """Shares and masked tables of lookups, and the entries that both shares make."""
    compared, differ = 0, 0
    for number in range(n_lookups):
        n, n_points, n_outputs = 9, int(random.integers(2, 20)), int(random.integers(1, 4))
        ring_bits, first, step = (48, 64)[number % 2], int(random.integers(1000)), Step(1, number, 2)
        table = two.drawn((n, n_points, n_outputs))
        points = two.drawn(n, n_points, np.uint8)
        sides, n_bits = two.transfer_sides(), bits_of(n_points)
        choices = np.empty(n_bits, np.uint64)
        choice_words(points, n_bits, False, choices)
        batch = Batch(Step(1, number, 1), 0)
        t, transfers = sides.receiver.extend(batch, choices, KeyStream())
        q = sides.sender.extend(batch, len(choices), transfers)
        sender = LookupSender(
            Pads(sides.context, step, b"lookup"), sides.sender.difference, n_points, ring_bits
        )
        receiver = LookupReceiver(Pads(sides.context, step, b"lookup"), n_points, n_outputs, ring_bits)
        shares, message = sender.answer(keys_of(q, n_points), first, table)
        others = receiver.take(keys_of(t, n_points), first, points, message)
        entries = table[np.arange(n), points] - (shares + others) & np.uint64((1 << ring_bits) - 1)
        delta, expected = two.delta_of(sides.difference), b""
        for i in range(n):
            key = oracle.combined(two.as_integers(q), n_bits, i)
            masks = [
                [
                    oracle.pad(
                        sides.context,
                        step,
                        b"lookup",
                        key ^ oracle.field_times(j, delta),
                        -(-n_outputs // 2) * (first + i) + o // 2,
                        o % 2,
                    )
                    for o in range(n_outputs)
                ]
                for j in range(n_points)
            ]
            own = [int(table[i, 0, o]) + masks[0][o] for o in range(n_outputs)]
            for j in range(1, n_points):
                for o in range(n_outputs):
                    value = (int(table[i, j, o]) - own[o] + masks[j][o]) % (1 << ring_bits)
                    expected += value.to_bytes(ring_bits // 8, "little")
            differ += [int(x) for x in shares[i]] != [x % (1 << 64) for x in own]
        differ += (bytes(message) != expected) + bool(entries.any())
        compared += n + 2
    return compared, differ


def differing_rounds(random: np.random.Generator, n_rounds: int) -> tuple[int, int]:
    """Opened sums of whole rounds at both sides, beside a loop over the rows."""
    one, other = two.sessions((os.urandom(32), os.urandom(32)))
    compared, differ = 0, 0
    for number in range(1, n_rounds + 1):
        layout = two.layout_of(
            int(random.integers(1, 300)),
            owners=tuple(random.integers(0, 2, int(random.integers(1, 4))).tolist()),
            levels=int(random.integers(1, 6)),
            n_points=int(random.integers(2, 40)),
            ring_bits=(48, 64)[number % 2],
        )
        inputs = two.inputs_of(layout)
        own = [[inputs.leaves[t] for t in layout.owned_by(place)] for place in (0, 1)]
        tables = TableSide(
            one, layout, number, 0, lambda a, b, held=inputs.tables: held[a:b], own[0], inputs.noise[0]
        )
        points = PointSide(other, layout, number, 0, inputs.points, own[1], inputs.noise[1])
        two.play(tables, points)
        for t, tree in enumerate(layout.trees):
            sums = [int(a) + int(b) for a, b in zip(inputs.noise[0][t], inputs.noise[1][t], strict=True)]
            for i in range(layout.n_rows):
                sums[int(inputs.leaves[t][i])] += int(inputs.tables[i, inputs.points[i], tree.output])
            right = [x % (1 << layout.ring_bits) for x in sums]
            for side in (tables, points):
                differ += [int(x) for x in side.opened[t]] != right
                compared += 1
    return compared, differ


def transfer_faults() -> dict[str, Any]:
    """Faults of transfers; the first two leave all sums right."""
    hashed, octets = Pads.hashed, Batch.to_bytes

    def one_counter(self: Pads, inputs: Any, first: int) -> Any:
        return hashed(self, inputs, 0)

    def one_batch(self: Batch) -> bytes:
        return octets(Batch(self.step, 0))

    def never_zero(self: LookupSender, keys: Any, first: int, table: Any) -> Any:
        return _answer(self, keys, first, np.where(table == table[0, 0, 0], 0, table))

    _answer = LookupSender.answer
    return {
        "pads of every message begin anew": replaced(Pads, hashed=one_counter),
        "streams do not depend on the batch": replaced(Batch, to_bytes=one_batch),
        "no check of corrections": replaced(TransferSender, _check=lambda *_: None),
        "one entry of a table is another": replaced(LookupSender, answer=never_zero),
    }


# The lines.

CHECKS: dict[str, Callable[[np.random.Generator, int], tuple[int, int]]] = {
    "secure sums": lambda random, scale: differing_sums(random, 6 * scale, 40),
    "transfers": differing_transfers,
    "lookups": lambda random, scale: differing_lookups(random, 2 * scale),
    "rounds": lambda random, scale: differing_rounds(random, 5 * scale),
}
"""Name to a function of a generator and a number of repetitions: things compared, and those that differ."""
FAULTS = {sum_faults: ("secure sums",), transfer_faults: ("transfers", "lookups")}


def with_slow(name: str, scale: int) -> Iterator[Line]:
    compared, differ = CHECKS[name](np.random.default_rng(), scale)
    yield Line(SLOW, name, "all", differ > 0, f"{differ} of {compared:,} differ")


def with_faults(faults: Callable[[], dict[str, Any]]) -> Iterator[Line]:
    for fault, plant in faults().items():
        with plant:
            seen = {name: CHECKS[name](np.random.default_rng(), 1) for name in FAULTS[faults]}
        text = "; ".join(f"{name}: {d} of {c}" for name, (c, d) in seen.items() if d)
        yield Line(SLOW, fault, "all", any(d for _, d in seen.values()), text, PLANTED)


def pieces(audit: Audit, quick: bool) -> list[Piece]:
    names = [name for name in CHECKS if name != "rounds" or audit.package("nacl", "pynacl")]
    return [partial(with_slow, name, 1 if quick else 5) for name in names] + [
        partial(with_faults, faults) for faults in FAULTS
    ]


if __name__ == "__main__":
    run("secure sums and transfers a second time", LIMITS, __doc__, pieces)
