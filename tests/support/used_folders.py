"""Folders of a party and of a coordinator as they are while runs go on."""

import json
import shutil
import time

from deployment import certificates
from gbdt_parties.quota import TAKEN
from gbdt_parties.run.log import RunLog
from gbdt_parties.transport.service import CALLER, part_of
from kept_stores import restarted
from veilboost.kept_files import ROUNDS_FILE
from xgb_fed.vertical.passive.disclosed_statistics import GIVEN
from xgb_fed.vertical.passive.service import ROLE

SETTINGS = 'data = "x.csv"\ntls = "bank"\nallow = ["acme"]\nmax_statistics = 2\nmodels = "kept"\n'
PLAN = (
    'tls = "acme"\n[data]\nfile = "a.csv"\nlabel = "y"\n[[parties]]\nname = "bank"\naddress = "127.0.0.1:1"\n'
)
SECRET = "5ec2e7"
"""Of a run's record, which has its keys."""

HOSTILE = "<img src=x onerror=alert(1)>"


def used(place, n_runs=1):
    """A party ``bank`` with runs under way, and the run of ``acme``; gives their stores, which are in use."""
    for name in ("acme", "bank"):
        shutil.copytree(certificates(name), place / name)
    (place / "bank.toml").write_text(SETTINGS)
    (place / "plan.toml").write_text(PLAN)
    store = restarted(place / "kept", role=ROLE)
    store.put(CALLER, "acme", b"")
    store.put(TAKEN, "questions of acme", [time.time()] * 60)
    part = part_of(store, "acme")
    part.put(GIVEN, "", 0.5)
    for number in range(n_runs):
        log = RunLog(part.part("exact"), (number + 1).to_bytes(16, "little"))
        log.begin({"request": json.dumps({"n_rounds": 70}), "keys": SECRET})
        log.answer(1, b"asked", lambda: b"answer", lambda: None)
    models = place / "kept" / "for-acme" / "models"
    models.mkdir(parents=True)
    for number in range(n_runs):
        (models / f"{number + 1000:032x}.json").write_text("{}")
    sent = {"time": "2026-01-01T10:20:30.000+00:00", "from": "acme", "to": "bank", "message": "AskSum"}
    lines = [
        {**sent, "bytes": 5000, "ciphertext_bytes": 4000, "session": "aa"},
        {**sent, "from": "bank", "to": HOSTILE, "bytes": 9, "ciphertext_bytes": 0, "reason": HOSTILE},
    ]
    (place / "kept" / "record.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    progress = restarted(place / "checkpoint", "training.store", "an active party")
    rounds = ({"round": k, "of": 40, "left": "9 min", "metrics": {"auc": 0.5 + 0.1 * k}} for k in (1, 2, 3))
    (place / "checkpoint" / ROUNDS_FILE).write_text(
        "".join(json.dumps(one) + "\n" for one in rounds) + "torn"
    )
    return store, progress
