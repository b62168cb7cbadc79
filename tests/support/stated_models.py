"""Models that statements and cards are about: of each kind one, with the record of its training run."""

import exact_training
import federated_training
import vertical_training
import xgb_fed
from gbdt_parties.identity.record import write_traffic
from gbdt_parties.traffic import Traffic

HOSTILE = "<script>alert(1)</script>"


def made_in(place):
    """The folders ``vertical``, ``exact`` and ``private``, each with a record beside it."""
    X, y = vertical_training.problem(n=120)
    active, *passive = vertical_training.parts(X, 2, 4)
    parties = [xgb_fed.LocalParty(part, name) for part, name in zip(passive, ("bank", HOSTILE), strict=True)]
    vertical = vertical_training.train({"objective": "binary:logistic", "max_depth": 2}, active, y, parties)
    vertical.save(place / "vertical")
    write_traffic(place / "vertical.jsonl", vertical.traffic)
    exact = exact_training.train(exact_training.parties())
    (place / "exact").mkdir()
    (place / "exact" / "model.json").write_bytes(exact.as_json())
    write_traffic(place / "exact.jsonl", exact.traffic)
    traffic = Traffic()
    booster = federated_training.train(federated_training.parties(3), 2, epsilon=2.0, traffic=traffic)
    (place / "private").mkdir()
    booster.save_model(place / "private" / "model.txt")
    write_traffic(place / "private.jsonl", traffic)
    return place
