"""One side of a session of two parties: from nonces to transfers in both directions.

Functionality: A and B have nothing; afterwards each has a secret difference for transfers that the other
one chooses in, and the other side of its transfers (`extension`), under names that no other session has.

Three messages each way, in step: a greeting with version, algorithms and a nonce; the points of base
transfers in which this side chooses (the bits of its difference); and the key of those in which the other
side chooses, with trees of seeds.  A session ends with its connection, or when a check fails; it is never
resumed.

*Man in the middle.*  The keys bind run, places and public keys, but base transfers authenticate no one:
these messages must travel in the authenticated channel of the two parties, or be signed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from gbdt_commons.key_stream import KEY_BYTES, KeyStream
from gbdt_parties.curve_group import POINT_BYTES, length_prefixed
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.two_party.base_transfers import BaseReceiver, BaseSender
from gbdt_parties.two_party.extension import TransferReceiver, TransferSender
from gbdt_parties.two_party.life import Failures, Life, Unrepeatable
from gbdt_parties.two_party.names import DIGEST_BYTES, Seat, direction_digest, session_digest
from gbdt_parties.two_party.punctured_trees import N_BITS, base_choices, grown, punctured

_DOMAIN = b"veilboost two-party draws 1"


class Draws(Unrepeatable):
    """Streams of one side for one set-up, or for one attempt.

    HKDF-SHA256 of a seed to which the side is committed, with a nonce as salt and the stream's purpose as
    information, gives the key of a ChaCha20 stream.  Seed and nonce have 32 bytes each.  By default the nonce
    is fresh, of the operating system, and to be recorded for an auditor who repeats the draws; that of an
    attempt of a run is a digest of its session's set-up (`gbdt_parties.run.flights.connection`).

    * *Seed and nonce repeat them*, and nothing else does: without the seed, HKDF of it looks uniform, also
      beside the streams of other nonces and purposes.
    * *No attempt repeats another one's*, even if the number of attempts was lost with a file: its session has
      fresh nonces.  A purpose is drawn for once.
    """

    def __init__(self, seed: bytes, nonce: bytes | None = None) -> None:
        nonce = os.urandom(DIGEST_BYTES) if nonce is None else nonce
        for name, value in (("seed", seed), ("nonce", nonce)):
            if len(value) != DIGEST_BYTES:
                raise PartyArgumentError(f"{name} of {len(value)} bytes: it must have {DIGEST_BYTES}")
        self.seed, self.nonce = seed, nonce
        self._drawn: set[bytes] = set()

    def stream(self, *purpose: bytes) -> KeyStream:
        """The stream of a purpose; raises RuntimeError if it was drawn before."""
        info = length_prefixed([_DOMAIN, *purpose])
        if info in self._drawn:
            raise RuntimeError(f"draws for {purpose!r} were made before")
        self._drawn.add(info)
        return KeyStream(HKDF(hashes.SHA256(), KEY_BYTES, salt=self.nonce, info=info).derive(self.seed))

    def octets(self, count: int, *purpose: bytes) -> bytes:
        """So many bytes for a purpose."""
        return self.stream(*purpose).words(-(-count // 8)).astype("<u8").tobytes()[:count]


_N_STAGES = 3
VERSION, HASH, CHECKS = 1, 1, 1
"""On the wire: hash 1 is TMMO with AES-128, checks 1 are those of trees and of every batch of transfers."""

_GREETING = b"VB2P" + bytes([VERSION, HASH, CHECKS, 0])


class Session(Unrepeatable):
    """One side of a session.

    The run is the digest of the roster that both signed, the seed 32 secret bytes to which this side is
    committed.  The failures are those of all sessions with the same party: kept, and given to each of them. A
    nonce is given by an auditor who repeats the session.

    The greeting is the first message.  Once both nonces are there, `digest` names the session, and `sending`
    and `receiving` name its directions in which this side has the secret difference and in which it chooses.
    """

    def __init__(
        self, run: bytes, own: Seat, other: Seat, seed: bytes, failures: Failures, nonce: bytes | None = None
    ) -> None:
        self.life = Life(failures)
        self._draws = Draws(seed, nonce)
        self.own, self.other, self._run, self.seed = own, other, run, seed
        # Refuses twins before anything is sent.
        session_digest(run, own, other, (self.nonce, self.nonce))
        self.greeting = _GREETING + self.nonce
        self.digest = self.sending = self.receiving = b""
        self._secrets: tuple[NDArray[np.uint8], BaseReceiver] | None = None
        self._sender: TransferSender | None = None
        self._receiver: TransferReceiver | None = None
        self._stages = 0
        self.begun: tuple[int, int] | None = None

    @property
    def sender(self) -> TransferSender:
        """Transfers in which the other side chooses, once the session is open."""
        assert self._sender is not None
        return self._sender

    @property
    def receiver(self) -> TransferReceiver:
        """Transfers in which this side chooses, once the session is open."""
        assert self._receiver is not None
        return self._receiver

    @property
    def nonce(self) -> bytes:
        """The nonce of the draws of this side's set-up."""
        return self._draws.nonce

    def draws(self, nonce: bytes | None = None) -> Draws:
        """Draws for one attempt, with a fresh nonce, or that of an auditor."""
        return Draws(self.seed, nonce)

    def take_greeting(self, message: bytes) -> bytes:
        """Take the other side's first message; gives this side's second one.

        Raises `ProtocolError` if it speaks another version, echoes this side's nonce, or has another length.
        """
        with self._stage(0):
            if message[: len(_GREETING)] != _GREETING:
                raise ProtocolError("the other side speaks another version of two-party transfers")
            nonce = message[len(_GREETING) :]
            if len(nonce) != DIGEST_BYTES:
                raise ProtocolError(f"a greeting has {len(message)} bytes, not {len(self.greeting)}")
            if nonce == self.nonce:
                raise ProtocolError("the other side sent this side's nonce back")
            self.digest = session_digest(self._run, self.own, self.other, (self.nonce, nonce))
            self.sending = direction_digest(self.digest, self.own, self.other)
            self.receiving = direction_digest(self.digest, self.other, self.own)
            bits = np.frombuffer(self._draws.octets(N_BITS // 8, b"difference", self.digest), dtype=np.uint8)
            difference = np.unpackbits(bits, bitorder="little")
            stream = self._draws.stream(b"base choices", self.digest)
            base = BaseReceiver(self.sending, base_choices(difference), stream)
            self._secrets = difference, base
            return base.message

    def take_points(self, message: bytes) -> bytes:
        """Take the second message, give the third; `ProtocolError` unless it has all points of the group."""
        with self._stage(1):
            base = BaseSender(self.receiving, self._draws.stream(b"base keys", self.digest))
            seeds, trees = grown(self.receiving, base.keys(message, N_BITS))
            self._receiver = TransferReceiver(self.receiving, seeds, self.life)
            return base.message + trees

    def take_trees(self, message: bytes) -> None:
        """Take the other side's third message: the session is open.

        Raises `TransferCheckError` if the trees do not pass their check, and `ProtocolError` if the message
        is malformed.
        """
        with self._stage(2):
            assert self._secrets is not None
            difference, base = self._secrets
            keys = base.keys(message[:POINT_BYTES])
            seeds = punctured(self.sending, difference, keys, message[POINT_BYTES:], self.life)
            self._sender = TransferSender(self.sending, seeds, difference, self.life)
            self._secrets = None

    @contextmanager
    def _stage(self, stage: int) -> Iterator[None]:
        """One stage of the set-up, once and in order; an error of any kind ends the session."""
        with self.life.held():
            try:
                if self._stages != stage:
                    raise ProtocolError(f"message {stage + 1} of a session came at stage {self._stages + 1}")
                yield
            except BaseException as error:
                self.life.end(f"its set-up failed with {type(error).__name__}")
                raise
            self._stages += 1

    def begin(self, round_number: int, attempt: int) -> None:
        """Begin an attempt of a round; `ProtocolError` if not open, or not later than all begun ones."""
        with self.life.held():
            if self._stages != _N_STAGES:
                raise ProtocolError("the session is not open yet")
            if self.begun is not None and (round_number, attempt) <= self.begun:
                raise ProtocolError(
                    f"attempt {attempt} of round {round_number} is not after attempt {self.begun[1]} of "
                    f"round {self.begun[0]}: no attempt is made twice"
                )
            self.begun = (round_number, attempt)
