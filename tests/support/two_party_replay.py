"""Every byte of a session and a round of two parties from their seeds, nonces and inputs: slow and obvious.

Base transfers come from `gbdt_parties.two_party.base_transfers`, whose own test has the curve in plain
integers; everything else is `two_party_oracle`, and names that are spelt out here.
"""

from types import SimpleNamespace

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gbdt_commons.key_stream import KeyStream
from gbdt_parties.two_party.base_transfers import BaseReceiver, BaseSender
from gbdt_parties.two_party.extension import Batch
from gbdt_parties.two_party.names import Step
from two_party_oracle import (
    WORD,
    combined,
    field_times,
    pad,
    prefixed,
    sha,
    step_bytes,
    step_digest,
    transfers_message,
    trees_message,
)


def drawn_key(seed, nonce, *purpose):
    info = prefixed(b"veilboost two-party draws 1", *purpose)
    return HKDF(hashes.SHA256(), 32, salt=nonce, info=info).derive(seed)


def drawn_bytes(count, *where):
    return Cipher(algorithms.ChaCha20(drawn_key(*where), bytes(16)), None).encryptor().update(bytes(count))


def session_of(run, seats, seeds, nonces):
    """Names, differences, seeds of streams, and the set-up's messages; side 0 has the lower place."""
    texts = [seat.place.to_bytes(2, "little") + seat.key for seat in seats]
    digest = sha(b"veilboost two-party session 1", run, b"".join(texts), *nonces)
    sending = [sha(b"veilboost two-party direction 1", digest, texts[k], texts[1 - k]) for k in (0, 1)]
    greetings = [b"VB2P\1\1\1\0" + nonce for nonce in nonces]
    deltas, points, trees, streams = [], [], [], [None, None]
    receivers, senders = [], []
    for k in (0, 1):
        delta = int.from_bytes(drawn_bytes(16, seeds[k], nonces[k], b"difference", digest), "little")
        deltas.append(delta)
        # Off the path to each block's number, whose highest bit is first.
        choices = [1 - (delta >> (4 * block + m) & 1) for block in range(32) for m in (3, 2, 1, 0)]
        key = drawn_key(seeds[k], nonces[k], b"base choices", digest)
        receivers.append(BaseReceiver(sending[k], np.array(choices, np.uint8), KeyStream(key)))
        points.append(receivers[k].message)
    for k in (0, 1):
        # This side chooses in the other direction: it has both keys there, and all seeds.
        key = drawn_key(seeds[k], nonces[k], b"base keys", digest)
        senders.append(BaseSender(sending[1 - k], KeyStream(key)))
        pairs = senders[k].keys(points[1 - k], 128)
        streams[k], message = trees_message(sending[1 - k], pairs)
        trees.append(senders[k].message + message)
    return SimpleNamespace(
        digest=digest, sending=sending, deltas=deltas, streams=streams, said=[greetings, points, trees]
    )


class ReplayedRound:
    """One round, message by message."""

    def __init__(self, session, layout, number, attempt, seeds, nonces, inputs):
        self.session, self.layout, self.inputs = session, layout, inputs
        self.number, self.attempt = number, attempt
        self.trees = [layout.owned_by(0), layout.owned_by(1)]
        self.shares = [[[0] * layout.n_outputs for _ in range(layout.n_rows)] for _ in (0, 1)]
        self.sums = [[[0] * (1 << tree.levels) for tree in layout.trees] for _ in (0, 1)]
        self.rows = [[], []]
        self.spares = [
            (seeds[k], nonces[k], b"spare choices", session.digest, step_bytes(number, attempt, 1))
            for k in (0, 1)
        ]
        self.trace = [*self.choices(0), *self.choices(1)]
        self.trace += [*self.tables(), self.opening(0, self.trees[1])]
        self.trace += [
            *self.sums_of(0),
            self.opening(1, range(len(layout.trees))),
            self.opening(0, self.trees[0]),
        ]

    def choosers(self, side):
        """Numbers, bits, and whether the highest bit is first."""
        points = [(self.inputs.points, self.layout.n_bits, False)] if side == 1 else []
        trees = [(self.inputs.leaves[t], self.layout.trees[t].levels, True) for t in self.trees[side]]
        return points + trees

    def choices(self, side):
        step = Step(self.number, self.attempt, 1)
        messages = [step_digest(step, self.session.digest, b"round", self.layout.to_bytes())]
        used, choosers = 0, self.choosers(side)
        for k, chunk in enumerate(self.layout.chunks if choosers else ()):
            n = chunk.stop - chunk.start
            width = 64 * -(-n // 64)
            bits, at = 0, 0
            for numbers, n_bits, highest_first in choosers:
                for t in range(n_bits):
                    shift = n_bits - 1 - t if highest_first else t
                    for i in range(n):
                        bits |= (int(numbers[chunk.start + i]) >> shift & 1) << (at + i)
                    at += width
            total = at + (at // 64 % 2) * 64 + 128
            stream = drawn_bytes(used + (total - at) // 8, *self.spares[side])
            bits |= int.from_bytes(stream[used:], "little") << at
            used = len(stream)
            context = self.session.sending[1 - side]
            t, message = transfers_message(context, self.session.streams[side], Batch(step, k), bits, total)
            self.rows[side].append((t, bits))
            messages.append(message)
        return messages

    def transfer(self, side, k, chooser, t, i):
        """q and q ⊕ c·Δ of the other side and this one: bit t of a chooser, row i of a chunk."""
        rows, bits = self.rows[side][k]
        n = self.layout.chunks[k].stop - self.layout.chunks[k].start
        before = sum(n_bits for _, n_bits, _ in self.choosers(side)[:chooser])
        at = (before + t) * 64 * -(-n // 64) + i
        delta = self.session.deltas[1 - side]
        return rows[at] ^ delta * (bits >> at & 1), rows[at]

    def ring_bytes(self, value):
        return (value % (1 << self.layout.ring_bits)).to_bytes(self.layout.ring_bits // 8, "little")

    def tables(self):
        layout, step = self.layout, Step(self.number, self.attempt, 2)
        context, delta = self.session.sending[0], self.session.deltas[0]
        per_row = -(-layout.n_outputs // 2)
        for k, chunk in enumerate(layout.chunks):
            message = b""
            for i in range(chunk.stop - chunk.start):
                row = chunk.start + i
                key = combined(
                    [self.transfer(1, k, 0, t, i)[0] for t in range(layout.n_bits)], layout.n_bits, 0
                )
                table = [[int(entry) for entry in point] for point in self.inputs.tables[row]]
                masks = [
                    [
                        pad(
                            context,
                            step,
                            b"lookup",
                            key ^ field_times(j, delta),
                            per_row * row + o // 2,
                            o % 2,
                        )
                        for o in range(layout.n_outputs)
                    ]
                    for j in range(len(table))
                ]
                for o in range(layout.n_outputs):
                    share = (table[0][o] + masks[0][o]) % WORD
                    self.shares[0][row][o] = share
                    self.shares[1][row][o] = (table[self.inputs.points[row]][o] - share) % WORD
                for j in range(1, len(table)):
                    for o in range(layout.n_outputs):
                        message += self.ring_bytes(table[j][o] - self.shares[0][row][o] + masks[j][o])
            yield message + b"".join(self.corrections(1, k))

    def sums_of(self, side):
        """The corrections for one side's trees, by themselves."""
        for k in range(len(self.layout.chunks) if self.trees[side] else 0):
            yield b"".join(self.corrections(side, k))

    def corrections(self, owner, k):
        """Corrections for the trees of their owner, which the other side sends."""
        sender, chunk = 1 - owner, self.layout.chunks[k]
        step = Step(self.number, self.attempt, 2 if sender == 0 else 3)
        context, delta = self.session.sending[sender], self.session.deltas[sender]
        for number, t in enumerate(self.trees[owner]):
            tree, purpose = self.layout.trees[t], b"tree" + t.to_bytes(2, "little")
            for i in range(chunk.stop - chunk.start):
                row = chunk.start + i
                ones = [self.shares[sender][row][tree.output]]
                others = [self.shares[owner][row][tree.output]]
                for level in range(tree.levels):
                    chooser = number + (owner == 1)
                    q, own = self.transfer(owner, k, chooser, level, i)
                    bit = int(q != own)
                    below_ones, below_others = [], []
                    for j in range(1 << level):
                        block = (0, 1, 2, 4, 8, 16)[level] + j // 2
                        counter = row * (1 << tree.levels >> 1) + block
                        r, shifted = (pad(context, step, purpose, x, counter, j % 2) for x in (q, q ^ delta))
                        d = r - shifted + ones[j]
                        z = (shifted if bit else r) + bit * d
                        yield self.ring_bytes(d)
                        below_ones += [ones[j] + r, -r]
                        below_others += [(1 - bit) * others[j] - z, bit * others[j] + z]
                    ones, others = below_ones, below_others
                for leaf in range(1 << tree.levels):
                    self.sums[sender][t][leaf] += ones[leaf]
                    self.sums[owner][t][leaf] += others[leaf]

    def opening(self, side, trees):
        ring = 1 << self.layout.ring_bits
        words = [
            (total + int(noise)) % ring
            for t in trees
            for total, noise in zip(self.sums[side][t], self.inputs.noise[side][t], strict=True)
        ]
        return b"".join(word.to_bytes(8, "little") for word in words)
