"""How a party hashes its own rows, and which requests it refuses because their hashes would read the rows."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.similarity.collisions import MAX_HASHES
from gbdt_parties.errors import InvalidDataError, ProtocolError
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.horizontal.hash_seed import MAX_ABANDONED, SeedAgreement, identity_of
from xgb_fed.horizontal.lsh import MIN_ROWS, Moments, hash_rows, max_hashes, typical_distance
from xgb_fed.horizontal.messages import ColumnMoments, HashRows, SeedCommitment


class OwnHashes:
    """The hashes of one party's rows, over all of its sessions.

    Parameters
    ----------
    X : ndarray of float32, shape (n_rows, n_features), or CSR matrix
    known_features : int
        Number of features that others may know.
    random : SecretStream
    n_threads : int
        Number of threads; 0 means all available processors.
    """

    def __init__(self, X: Any, known_features: int, random: SecretStream, n_threads: int) -> None:
        self._X, self._least_known, self._random, self._n_threads = X, known_features, random, n_threads
        self._known = known_features
        self._moments: Moments | None = None
        self._told: dict[bytes, int] = {}
        self._last_seed = b""
        self._abandoned = 0
        self._agreement: SeedAgreement | None = None
        self._has_hashed = False

    def start_session(self, place: int, n_parties: int) -> None:
        """Forget the previous session, but not what it has told."""
        self._known, self._has_hashed = self._least_known, False
        self._agreement = SeedAgreement(self._random, place, n_parties)

    def tell_moments(self, known_features: int) -> ColumnMoments:
        """The moments of the columns.

        Raises
        ------
        InvalidDataError
            If there are so few rows that moments give them away.
        ProtocolError
            If `known_features` is negative.
        """
        n_rows = self._X.shape[0]
        if n_rows < MIN_ROWS:
            raise InvalidDataError(f"{n_rows} rows: moments of fewer than {MIN_ROWS} give the rows away")
        if known_features < 0:
            raise ProtocolError("known_features is negative")
        self._known = max(self._least_known, known_features)
        if self._moments is None:
            self._moments = Moments.of(self._X)
        return ColumnMoments(self._moments.count, self._moments.mean, self._moments.squares, self._known)

    @property
    def _session(self) -> SeedAgreement:
        if self._agreement is None:
            raise ProtocolError("the training run was not opened")
        return self._agreement

    def commit(self) -> SeedCommitment:
        """Commit to a contribution to the hash seed, and name the seed of the previous session."""
        last = identity_of(self._last_seed) if self._last_seed else b""
        return SeedCommitment(self._session.commit(), last)

    def reveal(self, commitments: bytes) -> bytes:
        """Reveal the contribution.

        Raises
        ------
        InvalidDataError
            If too many seeds were revealed that nobody then hashed by.
        """
        if self._abandoned >= MAX_ABANDONED:
            raise InvalidDataError(f"{self._abandoned} hash seeds were revealed and not used")
        contribution = self._session.reveal(commitments)
        self._abandoned += 1
        return contribution

    def hash(self, message: HashRows) -> NDArray[np.int32]:
        """Hash the rows, by functions that this party draws from the agreed seed, in windows of its own.

        Returns
        -------
        ndarray of int32, shape (n_rows, n_hashes)

        Raises
        ------
        InvalidDataError
            If the hashes would say more about a row than Theorem 1 allows, or moments are not plausible.
        ProtocolError
            If the request is out of turn or malformed.
        """
        if self._has_hashed:
            raise ProtocolError("rows are hashed once in a session: more hashes are more equations")
        if self._moments is None:
            raise ProtocolError("moments were not told yet")
        self._check_moments(self._moments, message.mean, message.std)
        n_unknown = int(np.count_nonzero(message.std)) - self._known
        allowed = min(MAX_HASHES, max_hashes(self._X.shape[0], n_unknown))
        if not 1 <= message.n_hashes <= allowed:
            raise InvalidDataError(
                f"{message.n_hashes} hashes per row; with {np.count_nonzero(message.std)} columns that count "
                f"and {self._known} of them known to others, this party gives 1 to {max(0, allowed)} (L < d)"
            )
        seed = self._seed(message.contributions)
        self._count(seed, message, allowed)
        self._has_hashed = True
        self._last_seed = seed
        if message.contributions:
            self._abandoned -= 1
        window = typical_distance(message.std)
        return hash_rows(self._X, message.mean, message.std, seed, message.n_hashes, window, self._n_threads)

    def _check_moments(self, own: Moments, mean: NDArray[np.float64], std: NDArray[np.float64]) -> None:
        n_features = self._X.shape[1]
        for vector in (mean, std):
            if vector.shape != (n_features,) or not np.isfinite(vector).all():
                raise ProtocolError("mean or std is malformed")
        refused = np.flatnonzero((std != 0) & ~own.accepts(mean, std))
        if len(refused):
            raise InvalidDataError(
                f"{len(refused)} columns, first column {refused[0]}, have an alleged mean or std that is too "
                "far from this party's own: their hashes could tell the values"
            )

    def _seed(self, contributions: bytes) -> bytes:
        if contributions:
            return self._session.agreed(contributions)
        if not self._last_seed:
            raise ProtocolError("there is no previous session whose hash seed could be used again")
        return self._last_seed

    def _count(self, seed: bytes, message: HashRows, allowed: int) -> None:
        """Add up the equations of all sessions; the same hash functions give no new ones."""
        parts = (seed, message.mean.tobytes(), message.std.tobytes())
        functions = hashlib.sha256(b"".join(parts)).digest()
        told = {**self._told, functions: max(message.n_hashes, self._told.get(functions, 0))}
        if len(told) > 1 and sum(told.values()) > allowed:
            raise InvalidDataError(
                f"{sum(self._told.values())} hashes of each row were given away in earlier training runs, "
                f"{allowed} are allowed: train with the same parties and rows again, or use fewer hashes"
            )
        self._told = told
