"""How a party hashes its own rows, and which requests it refuses because their hashes would read the rows."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.similarity.collisions import MAX_HASHES
from gbdt_parties.errors import InvalidDataError, ProtocolError
from xgb_fed.horizontal.common.rows import HorizontalRows
from xgb_fed.horizontal.simfl.disclosures import Disclosures
from xgb_fed.horizontal.simfl.hash_seed import MAX_ABANDONED, SeedAgreement, agreed_seed, identity_of
from xgb_fed.horizontal.simfl.lsh import MIN_ROWS, Moments, hash_rows, max_hashes, raw_scale, typical_distance
from xgb_fed.horizontal.simfl.messages import ColumnMoments, HashRows, SeedCommitment


class OwnHashes:
    """The hashes of one party's rows, in one session after another."""

    def __init__(self, rows: HorizontalRows, disclosures: Disclosures, n_threads: int) -> None:
        self._rows, self._X, self._n_threads = rows, rows.X, n_threads
        self._disclosures = disclosures
        self._known = rows.known_features
        self._moments: Moments | None = None
        self._agreement: SeedAgreement | None = None
        self._has_hashed = False

    def start_session(self, place: int, n_parties: int) -> None:
        """Forget the previous session, but not what it has told."""
        self._known, self._has_hashed = self._rows.known_features, False
        self._agreement = SeedAgreement(self._disclosures.contribution(), place, n_parties)

    def tell_moments(self, known_features: int) -> ColumnMoments:
        """Moments of the columns; InvalidDataError if few rows would show, ProtocolError below 0."""
        n_rows = self._X.shape[0]
        if n_rows < MIN_ROWS:
            raise InvalidDataError(f"{n_rows} rows: moments of fewer than {MIN_ROWS} give the rows away")
        if known_features < 0:
            raise ProtocolError("known_features is negative")
        self._known = max(self._rows.known_features, known_features)
        if self._moments is None:
            self._moments = Moments.of(self._X)
        told = self._disclosures.moments(self._moments)
        return ColumnMoments(told.count, told.mean, told.squares, self._known)

    @property
    def _session(self) -> SeedAgreement:
        if self._agreement is None:
            raise ProtocolError("the training run was not opened")
        return self._agreement

    def commit(self) -> SeedCommitment:
        """Commit to a contribution to the hash seed, and name the seed of the previous session."""
        last_seed = bytes.fromhex(self._disclosures.told.last_seed)
        return SeedCommitment(self._session.commit(), identity_of(last_seed) if last_seed else b"")

    def reveal(self, commitments: bytes) -> bytes:
        """Reveal the contribution, unless too many seeds were revealed and then not used."""
        known, session = self._disclosures, self._session
        with known.state.locked():
            told = known.told
            answered = told.is_pending and commitments.hex() == told.commitments
            if answered and session.has_committed and not session.commitments:
                # The answer was lost in an earlier session.
                session.commitments = commitments
                return known.contribution(-1)
            if told.n_abandoned >= MAX_ABANDONED:
                raise InvalidDataError(f"{told.n_abandoned} hash seeds were revealed and not used")
            session.check(commitments)
            if session.contribution != known.contribution():
                raise ProtocolError("this party has revealed its contribution in another session meanwhile")
            known.change(
                n_abandoned=told.n_abandoned + 1,
                n_revealed=told.n_revealed + 1,
                commitments=commitments.hex(),
                is_pending=True,
            )
        return session.contribution

    def hash(self, message: HashRows) -> tuple[NDArray[np.int32], bytes]:
        """Hash the rows, by functions that this party draws from the agreed seed, in windows of its own.

        With hashes of shape (n_rows, n_hashes) comes a digest that names the functions.  An InvalidDataError
        says that the hashes would say more about a row than Theorem 1 allows, or that moments are not
        plausible; a ProtocolError, that the request is out of turn or malformed.
        """
        if self._has_hashed:
            raise ProtocolError("rows are hashed once in a session: more hashes are more equations")
        if self._moments is None:
            raise ProtocolError("moments were not sent yet")
        self._check_moments(self._moments, message.mean, message.std)
        n_unknown = int(np.count_nonzero(message.std)) - self._known
        allowed = min(MAX_HASHES, max_hashes(self._X.shape[0], n_unknown))
        if not 1 <= message.n_hashes <= allowed:
            raise InvalidDataError(
                f"{message.n_hashes} hashes per row; with {np.count_nonzero(message.std)} columns that count "
                f"and {self._known} of them known to others, this party gives 1 to {max(0, allowed)} (L < d)"
            )
        with self._disclosures.state.locked():
            seed = self._seed(message.contributions)
            functions = self._count(seed, message, allowed)
        self._has_hashed = True
        window = typical_distance(message.std)
        hashes = hash_rows(
            self._X, message.mean, message.std, seed, message.n_hashes, window, self._n_threads
        )
        return hashes, functions

    def _check_moments(self, own: Moments, mean: NDArray[np.float64], std: NDArray[np.float64]) -> None:
        n_features = self._X.shape[1]
        for vector in (mean, std):
            if vector.shape != (n_features,) or not np.isfinite(vector).all():
                raise ProtocolError("mean or std is malformed")
        if self._rows.as_published:
            if not np.array_equal((mean, std), raw_scale(n_features)):
                raise InvalidDataError("as_published=True at this party only: give it to the training run")
            return
        refused = np.flatnonzero((std != 0) & ~own.accepts(mean, std))
        if len(refused):
            raise InvalidDataError(
                f"{len(refused)} columns, first column {refused[0]}, have an alleged mean or std that is too "
                "far from this party's own: their hashes could reveal the values"
            )

    def _seed(self, contributions: bytes) -> bytes:
        """The seed that the contributions give, if they are those of the last agreement."""
        told = self._disclosures.told
        if contributions:
            # A session that follows one that was lost goes on with the agreement of that one.
            return agreed_seed(contributions, self._session.commitments or bytes.fromhex(told.commitments))
        if not told.last_seed:
            raise ProtocolError("there is no previous session whose hash seed could be used again")
        return bytes.fromhex(told.last_seed)

    def _count(self, seed: bytes, message: HashRows, allowed: int) -> bytes:
        """Add up the equations of all sessions; the same hash functions give no new ones.

        By one seed and the same moments, the hashes of one request are the first of those of a larger one
        (`hash_rows`).
        """
        told = self._disclosures.told
        parts = (seed, message.mean.tobytes(), message.std.tobytes())
        name = (functions := hashlib.sha256(b"".join(parts)).digest()).hex()
        hashes = {**told.hashes, name: max(message.n_hashes, told.hashes.get(name, 0))}
        if len(hashes) > 1 and sum(hashes.values()) > allowed:
            raise InvalidDataError(
                f"{sum(told.hashes.values())} hashes of each row were given away in earlier training runs, "
                f"{allowed} are allowed: train with the same parties and rows again, or use fewer hashes"
            )
        is_used = bool(message.contributions) and told.is_pending
        self._disclosures.change(
            hashes=hashes,
            last_seed=seed.hex(),
            n_abandoned=told.n_abandoned - is_used,
            is_pending=told.is_pending and not is_used,
        )
        return functions
