"""The sections of a plan, by method: what a plan may say of data, of the other parties and of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xgb_fed.ciphers.base import Scheme
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier
from xgb_fed.horizontal.common.rows import MAX_ROUNDS, MAX_ROWS, MIN_SIMILAR
from xgb_fed.horizontal.exact.rows.samples import MAX_SAMPLES
from xgb_fed.horizontal.exact.task import MIN_ROWS_PER_NODE

CIPHERS: dict[str, Callable[[int], Scheme]] = {"paillier": Paillier, "okamoto-uchiyama": OkamotoUchiyama}


@dataclass(frozen=True)
class DataPlan:
    """The active party's file.

    Attributes
    ----------
    file : str
    label : str
    id : str or None
        Column of ids; without it, the parties' files must have the same rows in the same order.
    drop, one_hot, categorical : list of str
    aligned : str
        Where `align` writes the ids in common.
    valid : str or None
        File of rows to evaluate the model on after every round, with the same columns; needs `id`.
    aligned_valid : str
        Where `align` writes the ids in common of those.
    """

    file: str
    label: str
    id: str | None = None
    drop: list[str] = field(default_factory=list)
    one_hot: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    aligned: str = "aligned.ids"
    valid: str | None = None
    aligned_valid: str = "aligned-valid.ids"


@dataclass(frozen=True)
class PartyPlan:
    """A passive party: its name in the model, its address, and the name its certificate must be for."""

    name: str
    address: str
    server_name: str | None = None


@dataclass(frozen=True)
class OwnRowsPlan:
    """The coordinator's file in horizontal training; without it, only the parties' servers have rows.

    Attributes
    ----------
    file : str or None
        Rows and labels that take part in training.
    label : str or None
        Column of labels, in `file` and in `valid`.
    id : str or None
        Column of ids, which is no feature; predictions are written beside it.
    drop : list of str
    labels : str
        Kind of the labels, "classes" or "numbers".
    name : str
        Name of the coordinator's rows among the parties.
    min_similar, known_features, max_rows, max_rounds : int
        As in `HorizontalParty`.
    state : str
        Folder of what these rows must not forget: groups of rows, hashes given away, part in training runs.
    valid : str or None
        File of rows to evaluate the model on after every round.
    """

    file: str | None = None
    label: str | None = None
    id: str | None = None
    drop: list[str] = field(default_factory=list)
    labels: str = "classes"
    name: str = "own"
    min_similar: int = MIN_SIMILAR
    known_features: int = 0
    max_rows: int = MAX_ROWS
    max_rounds: int = MAX_ROUNDS
    state: str = "party"
    valid: str | None = None


@dataclass(frozen=True)
class ExactRowsPlan:
    """The coordinator's file in exact training; without it, only the parties' servers have rows.

    Attributes
    ----------
    file : str or None
        Rows and labels that take part in training.
    label : str or None
        Column of labels; needed with `file`.
    id : str or None
        Column of ids, which is no feature; predictions are written beside it.
    drop : list of str
    labels : str
        Kind of the labels, "classes" or "numbers".
    allowed : list of str
        The other organisations, by the fingerprints of their certificates; needed with `file`.
    max_rows, max_rounds : int
        As in `HorizontalParty`.
    max_samples : int
        As in `ExactTerms`.
    state : str
        Folder of what these rows must not forget: rounds, keys of runs under way, digests of answers.
    valid : str or None
        File of rows that are not trained on; metrics are of those of all parties together.
    """

    file: str | None = None
    label: str | None = None
    id: str | None = None
    drop: list[str] = field(default_factory=list)
    labels: str = "classes"
    allowed: list[str] = field(default_factory=list)
    max_rows: int = MAX_ROWS
    max_rounds: int = MAX_ROUNDS
    max_samples: int = MAX_SAMPLES
    state: str = "party"
    valid: str | None = None


@dataclass(frozen=True)
class PrivateRowsPlan:
    """The coordinator's file in private training; without it, only the parties' servers have rows.

    Attributes
    ----------
    declared : str or None
        File of what all organisations declare about their columns; needed with `file` and for predictions.
    file : str or None
        Rows that take part in training.
    id : str or None
        Column of ids; predictions are written beside it.
    allowed : list of str
        The other organisations, by the fingerprints of their certificates; needed with `file`.
    min_parties, colluding : int
        This organisation's own demands.
    budget_epsilon, budget_delta : float or None
        Of all that these rows answer, in all runs; the first run's unless given.
    state : str
        Folder of these rows' ledger, and of keys of runs under way.
    """

    declared: str | None = None
    file: str | None = None
    id: str | None = None
    allowed: list[str] = field(default_factory=list)
    min_parties: int = 2
    colluding: int = 1
    budget_epsilon: float | None = None
    budget_delta: float | None = None
    state: str = "party"


@dataclass(frozen=True)
class RunPlan:
    """How to train, by any method.

    Attributes
    ----------
    rounds : int
    early_stopping_rounds : int or None
        Stop when the last metric of the rows in `valid` has not improved for this many rounds.
    timeout : float
        Seconds of silence after which a party is unavailable.
    patience : float
        Seconds to wait for an unavailable party.
    checkpoint, model, record : str
        Folder of the progress, folder of the model, file of the record.
    """

    rounds: int = 100
    early_stopping_rounds: int | None = None
    timeout: float = 30.0
    patience: float = 600.0
    checkpoint: str = "checkpoint"
    model: str = "model"
    record: str = "record.jsonl"


@dataclass(frozen=True)
class TrainingPlan(RunPlan):
    """How to train by SecureBoost.

    Attributes
    ----------
    cipher : str
    key_length : int
    """

    cipher: str = "paillier"
    key_length: int = 2048

    @property
    def scheme(self) -> Scheme:
        """The cipher, with its key length."""
        return CIPHERS[self.cipher](self.key_length)


@dataclass(frozen=True)
class ExactTrainingPlan(RunPlan):
    """How to train exactly.

    Attributes
    ----------
    cuts : str
        "grid" or "exact".
    min_rows_per_node : int
        Rows of all parties that both sides of a split must have.
    min_parties : int
        Parties that must take part.
    """

    cuts: str = "grid"
    min_rows_per_node: int = MIN_ROWS_PER_NODE
    min_parties: int = 2


@dataclass(frozen=True)
class SimFLPlan(RunPlan):
    """How to train by SimFL.

    Attributes
    ----------
    n_hashes : int or None
    known_features : int
    """

    n_hashes: int | None = None
    known_features: int = 0


@dataclass(frozen=True)
class PrivateTrainingPlan(RunPlan):
    """How to train privately.

    Attributes
    ----------
    epsilon, delta : float
        Budget of the model, against what up to `colluding` parties know together.
    min_parties : int or None
        Parties that must take part in every sum; one more than `colluding` by default.
    colluding : int
        Parties whose noise counts as known.
    max_attempts : int or None
        Releases that the noise is planned for; 5 per cent more than `rounds` by default.
    parties_per_person : int
        Parties that may have rows of one person.
    """

    epsilon: float = field(kw_only=True)
    delta: float = field(kw_only=True)
    min_parties: int | None = None
    colluding: int = 1
    max_attempts: int | None = None
    parties_per_person: int = 1
