"""`lgb_dp.vertical.predict`: predictions of rows whose columns two parties have, both in one process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from gbdt_commons.store import MemoryStore, Store
from gbdt_commons.store_file import StoreFile
from gbdt_parties.channel import Channel
from gbdt_parties.errors import PartyError
from gbdt_parties.secure_sum.roster import SESSION_BYTES
from gbdt_parties.traffic import Traffic
from gbdt_parties.two_party.answers import MAX_ROWS
from lgb_dp.checks import checked_choice
from lgb_dp.data.arguments import checked_data
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
from lgb_dp.vertical.party import ColumnParty
from lgb_dp.vertical.prediction.answering import AskedRows
from lgb_dp.vertical.prediction.answers import AnswerKind
from lgb_dp.vertical.prediction.asking import Answerer, AskingParty
from lgb_dp.vertical.prediction.models import JointModel, digest_of, text_of
from lgb_dp.vertical.prediction.questions import QuestionsHere, RemoteAnswerer

STORE_NAME, STORE_ROLE = "answers.store", "answers about rows"


def predict(
    booster: lightgbm.Booster,
    X: Any,
    *,
    parties: Sequence[ColumnParty | AskedRows],
    answer: str = "rounded",
    ids: Sequence[str] | None = None,
    folder: str | Path | None = None,
    traffic: Traffic | None = None,
) -> NDArray[np.float64]:
    """Predict rows whose columns two parties have; neither sees those of the other.

    The other party maps its part of a row's score to the nearest of 32 public points, always the same for a
    row and a model, and the answer at that point is looked up obliviously: the other party learns nothing but
    which rows are asked about.  It answers one question about a row of a model, and counts the answers.  The
    same question again is answered from the answers that are kept in `folder`.

    Predictions are outside of ε.  A party that asks and follows the protocol learns one label or one rounded
    number about a row; one that deviates, or asks several questions by consent, learns at most the point, so
    five bits, and as many again for each question before which the row has changed; with ``answer="score"``
    there is no limit of bits.

    Parameters
    ----------
    booster : lightgbm.Booster
        A model that `train` has returned, or that was loaded since: all its trees.  It is of two classes, or
        of numbers.
    X : ndarray, table or scipy sparse matrix, shape (n_rows, n_features)
        Columns of the party with the labels; at most 65,536 rows.
    parties : sequence
        The other party's rows, in the same order: ``[bank.with_rows(X_bank, ids=ids)]``.  A `ColumnParty` has
        those that it was made with, and a `RemoteParty` those that its server has, or that it was aligned to;
        it must have been made with `allowed`.
    answer : {"rounded", "label", "point", "score"}
        The probability or number, rounded to a thousandth of its public range, or the label of a class;
        by consent of the other party (`Consent`) its nearest point, or its whole part of the score.
    ids : sequence of str, optional
        Of the rows of `X`, in the other party's order; needed for rows with ids behind a server.
    folder : path, optional
        Keeps answers of this party; without it the same question cannot be answered again.
    traffic : Traffic, optional
        Counts all messages, those that set up transfers included.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        Probabilities of the higher label, numbers, or labels.

    Raises
    ------
    UnsupportedParameterError
        If the model is of several classes.
    InvalidArgumentError
        If the model is not one that the other party has trained, columns or the number of rows differ, there
        are too many rows, or the other party refuses, which says why.
    ArgumentTypeError
        If an argument is of another type.
    TransferCheckError, ProtocolError
        If the other party deviates.
    """
    if folder is None:
        return predicted(booster, X, parties, answer, MemoryStore(), ids, traffic)
    store = StoreFile(Path(folder) / STORE_NAME, STORE_ROLE)
    try:
        return predicted(booster, X, parties, answer, store, ids, traffic)
    finally:
        store.close()


def check_outputs(booster: lightgbm.Booster) -> None:
    """Refuse questions about a model of several classes: their points together would tell more than one does.

    Raises
    ------
    UnsupportedParameterError
        If it is one.
    """
    n_classes = booster.num_model_per_iteration()
    if n_classes > 1:
        raise UnsupportedParameterError(
            f"booster has {n_classes} classes; other parties answer questions about two classes or a number: "
            "predict where the columns of both parties are"
        )


def predicted(
    booster: lightgbm.Booster,
    X: Any,
    parties: Any,
    answer: str,
    store: Store,
    ids: Sequence[str] | None = None,
    traffic: Traffic | None = None,
) -> NDArray[np.float64]:
    """As `predict`, with answers kept in a store."""
    if not isinstance(booster, lightgbm.Booster):
        raise ArgumentTypeError(f"booster must be a lightgbm.Booster, got {type(booster).__name__}")
    check_outputs(booster)
    kind = AnswerKind(checked_choice("answer", answer, [one.value for one in AnswerKind]))
    party, X = _only_party(parties), checked_data(X)
    if X.shape[0] > MAX_ROWS:
        raise InvalidArgumentError(
            f"X has {X.shape[0]} rows: a question is about at most {MAX_ROWS}; ask in parts"
        )
    rows = party.own_rows if isinstance(party, ColumnParty) else party
    if not getattr(rows, "has_allow_list", True):
        raise InvalidArgumentError(
            f"party {rows.name!r} is behind a server that is known by its name alone: pass RemoteParty "
            "allowed=['sha256:…'], its certificate's fingerprint"
        )
    text, is_here = text_of(booster), isinstance(rows, AskedRows)
    asked: Any = QuestionsHere(rows) if is_here else rows
    channel = Channel(asked, os.urandom(SESSION_BYTES), Traffic() if traffic is None else traffic)
    with rows.answers.lock.held() if is_here else nullcontext():
        remote = RemoteAnswerer(channel, text, digest_of(text), ids, rows.row_names if is_here else None)
        try:
            return _asked(remote.model, X, kind, remote, remote.row_names, rows.name, store)
        finally:
            with suppress(PartyError):
                remote.end()


def _asked(
    model: JointModel, X: Any, kind: AnswerKind, other: Answerer, names: list[bytes], name: str, store: Store
) -> NDArray[np.float64]:
    """Predictions of rows with the given names."""
    if X.shape[0] != len(names):
        raise InvalidArgumentError(
            f"X has {X.shape[0]} rows and party {name!r} {len(names)}: both must have the same rows, in the "
            "same order"
        )
    return AskingParty(model, other, store, name).predict(model.first_part(X), kind, names)


def _only_party(parties: Any) -> Any:
    """The only party, or its rows, or the end of a connection to it."""
    is_one = isinstance(parties, Sequence) and len(parties) == 1
    if not is_one or not (isinstance(parties[0], (ColumnParty, AskedRows)) or hasattr(parties[0], "handle")):
        raise ArgumentTypeError(
            "parties must be a sequence of one lgb_dp.vertical.ColumnParty, or of its rows as of with_rows, "
            "with the other columns of X"
        )
    return parties[0]
