"""The active party's encryption and decryption on the workers of its own cluster.

The secret key reaches a worker in a message over a direct connection with TLS: it is in no task, in no plugin
that the scheduler keeps, and never passes through the scheduler.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts import dask as host
from gbdt_kernels.residues.limbs import from_rows, to_rows
from xgb_fed.ciphers.base import Ciphertexts, KeepsSecrets, Plaintexts, PublicKey, Scheme
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyamaKey
from xgb_fed.ciphers.paillier import Paillier, PaillierKey
from xgb_fed.ciphers.residue_key import plaintext_rows
from xgb_fed.dask.partitions import ERRORS
from xgb_fed.dask.party import TIMEOUT, check_client
from xgb_fed.errors import ClusterError, InsecureClusterError, UnsupportedParameterError

MIN_ROWS = 256
"""Rows below which asking workers takes longer than working here."""

SecretKey = PaillierKey | OkamotoUchiyamaKey
_READERS: dict[str, Callable[..., Any]] = {
    "paillier": PaillierKey.from_private_bytes,
    "okamoto-uchiyama": OkamotoUchiyamaKey.from_private_bytes,
}


class KeyOfWorker(host.WorkerState):
    """The secret key on one worker."""

    def __init__(self) -> None:
        super().__init__()
        self.key: SecretKey | None = None

    def answer(self, message: host.Message) -> dict[str, Any]:
        """The answer to one of the active party's messages."""
        if "key" in message:
            read = _READERS[message["scheme"]]
            self.key = read(message["key"], allow_weak_key=True, n_threads=self.n_threads)
        if self.key is None:
            return {"unknown": True}
        rows = np.frombuffer(message["rows"], dtype=np.uint64).reshape(-1, message["width"])
        return {"rows": worked(self.key, message["ask"], rows).tobytes()}


def worked(key: SecretKey, what: str, rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Ciphertexts of rows of words, or the plaintexts of ciphertexts as rows of words."""
    if what == "encrypt":
        return key.encrypt(rows)
    return to_rows(key.decrypt(rows), _plaintext_words(key.public))


def _plaintext_words(public: PublicKey) -> int:
    """Words of a decrypted number: an Okamoto–Uchiyama plaintext may exceed the limit, but not by a word."""
    return -(-public.plaintext_limit.bit_length() // 64) + 1


class ClusterCipher:
    """A scheme whose keys encrypt and decrypt on the workers of a cluster.

    For an active party whose own processors are not enough.  The workers learn the secret key, and with it
    all gradients; they are trusted as this process is.  Without workers, everything is done here.

    Parameters
    ----------
    client : distributed.Client
        Of a cluster whose scheduler and workers use TLS.
    cipher : Scheme, optional
        ``Paillier(2048)`` by default, or ``OkamotoUchiyama()``.
    timeout : float
        Seconds: a worker that is silent for so long is taken to be lost.

    Raises
    ------
    InsecureClusterError
        If the cluster does not use TLS.
    ArgumentTypeError, InvalidArgumentError
        If the client is closed.

    Examples
    --------
    >>> with ClusterCipher(client, OkamotoUchiyama()) as cipher:  # doctest: +SKIP
    ...     model = VerticalXGBClassifier(cipher=cipher).fit(X, y, parties=[bank])
    """

    def __init__(self, client: Any, cipher: Scheme | None = None, *, timeout: float = TIMEOUT) -> None:
        check_client(client, timeout)
        self._client, self._timeout = client, timeout
        self._cipher = Paillier() if cipher is None else cipher
        self._keys: list[ClusterKey] = []
        check_security(client)

    def generate(self) -> ClusterKey:
        """A fresh key."""
        key = self._cipher.generate()
        if not isinstance(key, SecretKey):
            raise UnsupportedParameterError(
                f"cipher={self._cipher!r} gives keys that do not work on a cluster; Paillier and "
                "OkamotoUchiyama do"
            )
        self._keys.append(ClusterKey(key, self._client, self._timeout))
        return self._keys[-1]

    def close(self) -> None:
        """Make the workers forget all keys."""
        while self._keys:
            self._keys.pop().close()

    def __enter__(self) -> ClusterCipher:
        """Return the scheme."""
        return self

    def __exit__(self, *_: object) -> None:
        """Make the workers forget all keys."""
        self.close()


def check_security(client: Any) -> None:
    """Raise `InsecureClusterError` unless the scheduler and all workers are reached with TLS."""
    workers = client.scheduler_info()["workers"]
    if not all(address.startswith("tls://") for address in (client.scheduler.address, *workers)):
        raise InsecureClusterError(
            "the secret key is sent to workers only with TLS: start the cluster with a "
            "distributed.Security that requires encryption, and make the client with it"
        )


class ClusterKey(KeepsSecrets):
    """A secret key that workers have copies of."""

    def __init__(self, key: SecretKey, client: Any, timeout: float) -> None:
        self.key, self._client = key, client
        name = f"veilboost-key-{uuid.uuid4().hex}"
        self._cluster = host.Cluster(client, name, timeout, ERRORS, relays=False)
        self._lock = RLock()
        self._cluster.register(KeyOfWorker())

    @property
    def public(self) -> PublicKey:
        """The part that other parties may have."""
        return self.key.public

    def encrypt(self, plaintexts: Plaintexts) -> Ciphertexts:
        """Fresh ciphertexts, one per plaintext."""
        rows = plaintext_rows(plaintexts, self.public.plaintext_limit)
        width = self.public.ciphertext_bytes // 8
        return self._shared("encrypt", rows, width)

    def to_bytes_in_parts(self, n_rows: int, parts: Iterable[Ciphertexts]) -> tuple[int, Iterator[bytes]]:
        """Fresh ciphertexts of this key for the wire."""
        return self.key.to_bytes_in_parts(n_rows, parts)

    def decrypt(self, ciphertexts: Ciphertexts) -> list[int]:
        """The plaintexts of ciphertexts."""
        return from_rows(self._shared("decrypt", ciphertexts, _plaintext_words(self.public)))

    def _shared(self, what: str, rows: NDArray[np.uint64], width: int) -> NDArray[np.uint64]:
        """The work on all rows, divided among the workers that there are; lost parts are done here."""
        if len(rows) < MIN_ROWS:
            return worked(self.key, what, rows)
        parts = self._answers(what, rows)
        out = np.empty((len(rows), width), dtype=np.uint64)
        for span, answer in parts:
            if "rows" in answer:
                out[span] = np.frombuffer(answer["rows"], dtype=np.uint64).reshape(-1, width)
            else:
                out[span] = worked(self.key, what, rows[span])
        return out

    def _answers(self, what: str, rows: NDArray[np.uint64]) -> list[tuple[slice, host.Answer]]:
        """Result of each worker for its part; nothing if it is lost."""
        with self._lock:
            try:
                # A worker that joined without TLS is not told.
                addresses = [a for a in self._cluster.living() if a.startswith("tls://")]
                bounds = np.linspace(0, len(rows), len(addresses) + 1).astype(int).tolist()
                spans = {a: slice(*bounds[k : k + 2]) for k, a in enumerate(addresses)}
                messages = {a: partial(self._message, what, rows[span]) for a, span in spans.items()}
                answers = self._cluster.ask(messages)
            except ClusterError:
                spans, answers = {}, {}
        if not spans:
            return [(slice(0, len(rows)), {})]
        return [(span, answers.get(address, {})) for address, span in spans.items()]

    def _message(self, what: str, rows: NDArray[np.uint64], worker: host.KnownWorker) -> Mapping[str, Any]:
        """A part of the work, with the key if the worker has not been told."""
        message = {"ask": what, "rows": np.ascontiguousarray(rows).tobytes(), "width": rows.shape[1]}
        if "key" in worker.told:
            return message
        worker.told["key"] = True
        return {**message, "scheme": self.public.scheme, "key": self.key.private_bytes()}

    def close(self) -> None:
        """Make the workers forget the key, as far as they can be reached."""
        self._cluster.close()
