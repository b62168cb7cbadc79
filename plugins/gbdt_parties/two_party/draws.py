"""All random draws of one side, so that an auditor with its seed and nonces can repeat them."""

from __future__ import annotations

import os

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gbdt_commons.key_stream import KEY_BYTES, KeyStream
from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import PartyArgumentError
from gbdt_parties.two_party.life import Unrepeatable
from gbdt_parties.two_party.names import DIGEST_BYTES

_DOMAIN = b"veilboost two-party draws 1"


class Draws(Unrepeatable):
    """Streams of one side for one set-up, or for one attempt.

    HKDF-SHA256 of a seed to which the side is committed, with a nonce of the operating system as salt and the
    stream's purpose as information, gives the key of a ChaCha20 stream.

    * *Seed and nonce repeat them*, and nothing else does: without the seed, HKDF of it looks uniform, also
      beside the streams of other nonces and purposes.
    * *No attempt repeats another one's*, even if the number of attempts was lost with a file: its nonce is
      fresh.  A purpose is drawn for once.

    Parameters
    ----------
    seed : bytes
        32 uniform bytes.
    nonce : bytes, optional
        32 bytes of the operating system, for an auditor who repeats the draws.  By default they are fresh.

    Attributes
    ----------
    nonce : bytes
        To be recorded.
    """

    def __init__(self, seed: bytes, nonce: bytes | None = None) -> None:
        nonce = os.urandom(DIGEST_BYTES) if nonce is None else nonce
        for name, value in (("seed", seed), ("nonce", nonce)):
            if len(value) != DIGEST_BYTES:
                raise PartyArgumentError(f"{name} of {len(value)} bytes: it must have {DIGEST_BYTES}")
        self._seed, self.nonce = seed, nonce
        self._drawn: set[bytes] = set()

    def stream(self, *purpose: bytes) -> KeyStream:
        """The stream of a purpose.

        Raises
        ------
        RuntimeError
            If it was drawn before.
        """
        info = length_prefixed([_DOMAIN, *purpose])
        if info in self._drawn:
            raise RuntimeError(f"draws for {purpose!r} were made before")
        self._drawn.add(info)
        return KeyStream(HKDF(hashes.SHA256(), KEY_BYTES, salt=self.nonce, info=info).derive(self._seed))

    def octets(self, count: int, *purpose: bytes) -> bytes:
        """So many bytes for a purpose."""
        return self.stream(*purpose).words(-(-count // 8)).astype("<u8").tobytes()[:count]
