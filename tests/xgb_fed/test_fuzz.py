"""Damaged messages: every parser refuses or takes them, and nothing else happens."""

import contextlib
import os
from contextlib import closing

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import xgb_fed
from fuzzing import mutated
from gbdt_commons.errors import StoreError
from gbdt_commons.store import bytes_kind
from gbdt_commons.store_file import StoreFile
from gbdt_parties import messages
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.identity.alignment_messages import AlignRows, CommitIds, MaskIds, OpenAlignment, TellIds
from gbdt_parties.run.log import RUNS, RunLog
from gbdt_parties.transport import streams
from gbdt_parties.transport.server import NOBODY
from kept_stores import restarted
from veilboost.plans.tables import Table
from xgb_fed.boosting.features import read_columns
from xgb_fed.boosting.objectives import XGBoostObjective
from xgb_fed.ciphers import serialization as wire
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.errors import CheckpointError, CipherError
from xgb_fed.vertical.model.model import VerticalModel
from xgb_fed.vertical.passive.journal import FOUND, Journals
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.passive.service import Limits, PassiveService
from xgb_fed.vertical.protocol.messages import Gradients, ResumeTraining
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.training.checkpoint import ENTRY, ROLE, STORE_FILE, VerticalCheckpoint, VerticalProgress

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")

TRIES = int(os.environ.get("VEILBOOST_FUZZ", "100"))
PARAMS = dict(objective="binary:logistic", max_depth=2, max_bin=8, base_score=0.5)
CIPHER = xgb_fed.OkamotoUchiyama(512, allow_weak_key=True)


class Tape:
    """Hands requests on to a handler, and keeps all; may damage one answer."""

    name = "bank"

    def __init__(self, handler, damage=None):
        self.handler, self.damage = handler, damage
        self.requests, self.answers = [], []

    def handle(self, request):
        answer = self.handler.handle(request)
        if self.damage is not None and len(self.requests) == self.damage[0]:
            answer = mutated(answer, self.damage[1])
        self.requests.append(request)
        self.answers.append(answer)
        return answer


def data():
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 4)).astype(np.float32)
    return X, (X.sum(axis=1) > 0).astype(float)


def passive():
    X, _ = data()
    return PassiveParty(read_columns(X[:, 2:]), [], {}, allow_export=True, allow_explanations="per-feature")


def conversation(tape, cipher=CIPHER):
    X, y = data()
    with threadpool_limits(1):
        model = xgb_fed.train(
            PARAMS, xgb_fed.ActiveData(X[:, :2], y), [tape], 2, cipher=cipher, verbose_eval=False
        )
        model.predict(X[:, :2], [tape])
        model.explain(X[:, :2], [tape])
        model.export_booster([tape])
    return model


@pytest.fixture(scope="module")
def tape():
    tape = Tape(passive())
    conversation(tape)
    return tape


def test_messages(tape):
    random = np.random.default_rng(1)
    everything = tape.requests + tape.answers
    refused = 0
    for _ in range(20 * TRIES):
        damaged = mutated(everything[random.integers(len(everything))], random)
        try:
            messages.read(damaged)
        except ProtocolError:
            refused += 1
    assert refused > TRIES // 2


def test_streams(tape):
    random = np.random.default_rng(2)
    for _ in range(5 * TRIES):
        frames = list(streams.frames(tape.requests[random.integers(len(tape.requests))], (b"r" * 32,)))
        which = random.integers(len(frames))
        frames[which] = mutated(frames[which], random)
        with contextlib.suppress(ProtocolError):
            streams.assemble(frames, 1 << 20, heartbeats=True)


def test_keys_and_ciphertexts(tape):
    random = np.random.default_rng(3)
    key = messages.read(tape.requests[0]).message.public_key
    public = read_public_key(key)
    (values,) = (
        m.values for m in (messages.read(r).message for r in tape.requests[:4]) if isinstance(m, Gradients)
    )
    taken = 0
    for _ in range(5 * TRIES):
        for parse, original in ((read_public_key, key), (public.from_bytes, values), (wire.unpack, values)):
            damaged = mutated(original, random)
            try:
                parse(damaged)
                taken += damaged != original
            except CipherError:
                pass
    assert taken == 0, "a digest covers everything"


def test_a_passive_party_answers_whatever_it_is_asked(tape):
    """Each conversation goes well up to some message, which is damaged; the answer is a message."""
    random = np.random.default_rng(4)
    for _ in range(TRIES):
        handler = passive()
        stop = int(random.integers(len(tape.requests)))
        start = max(k for k in range(stop + 1) if messages.read(tape.requests[k]).sequence == 0)
        for request in tape.requests[start:stop]:
            handler.handle(request)
        answer = messages.read(handler.handle(mutated(tape.requests[stop], random)))
        assert type(answer.message) in messages.KINDS.values()


def test_a_service_answers_whatever_it_is_asked(tape, tmp_path):
    random = np.random.default_rng(5)
    X, _ = data()
    table = Table(read_columns(X[:, 2:]), [str(k) for k in range(40)], False, None, [], {})
    service = PassiveService(
        table, tmp_path, "bank", Limits(min_rows=1, allow_weak_key=True, allow_explanations="per-feature")
    )
    extra = [
        messages.write(b"s" * 16, 0, OpenAlignment(bytes(32), bytes(32), b"x" * 32, 3)),
        messages.write(b"s" * 16, 0, MaskIds()),
        messages.write(b"s" * 16, 0, CommitIds(b"x" * 32)),
        messages.write(b"s" * 16, 0, TellIds(b"x" * 96)),
        messages.write(b"s" * 16, 0, AlignRows(np.array([128], np.uint8), b"x" * 32)),
        messages.write(b"s" * 16, 1, ResumeTraining(b"m" * 16, 0)),
    ]
    for k in range(TRIES):
        sets = () if k % 2 else (random.bytes(32),)
        source = [*tape.requests, *extra]
        request = mutated(source[random.integers(len(source))], random)
        answer = messages.read(service.handle(NOBODY, sets, request))
        assert type(answer.message) in messages.KINDS.values()


def test_an_active_party_names_who_answers_nonsense(tape):
    random = np.random.default_rng(6)
    ended = nameless = 0
    for _ in range(max(1, TRIES // 10)):
        index = int(random.integers(len(tape.answers)))
        try:
            conversation(Tape(passive(), (index, random)), xgb_fed.Plain())
        except (ProtocolError, InvalidDataError) as error:
            ended += "'bank'" in str(error)
            nameless += "'bank'" not in str(error)
    assert ended
    assert not nameless


def beginning(n_rows):
    margin = np.zeros((n_rows, 1), dtype=np.float32)
    objective = XGBoostObjective("reg:squarederror")
    model = VerticalModel(b"", objective, [0.5], Splits(["f0", "f1"]), ["bank"], [])
    return VerticalProgress(model, 0, margin, [])


def test_journals_and_checkpoints(tmp_path):
    random = np.random.default_rng(7)
    X, y = data()
    store, kept = restarted(tmp_path), tmp_path / "active"
    journals = Journals(store)
    handler = PassiveParty(read_columns(X[:, 2:]), [], {}, journals=journals)

    class Dies:
        name = "bank"
        left = 9

        def handle(self, request):
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return handler.handle(request)

    with pytest.raises(KeyboardInterrupt):
        xgb_fed.train(
            PARAMS,
            xgb_fed.ActiveData(X[:, :2], y),
            [Dies()],
            3,
            cipher=xgb_fed.Plain(),
            verbose_eval=False,
            checkpoint=kept,
        )
    (number,) = store.keys(RUNS)
    own = RunLog(store, bytes.fromhex(number)).store
    for part, kind, key in ((store, bytes_kind(RUNS.name), number), (own, bytes_kind(FOUND.name), "")):
        text = part.get(kind, key)
        for _ in range(TRIES):
            part.put(kind, key, mutated(text, random))
            with contextlib.suppress(StoreError):
                journals.find(bytes.fromhex(number))
        part.put(kind, key, text)
    path = kept / STORE_FILE
    with closing(StoreFile(path, ROLE)) as progress_store:
        training = progress_store.get(ENTRY, "")[0]["training"]
    content, checkpoint = path.read_bytes(), VerticalCheckpoint(kept, training)

    def load(progress):
        with checkpoint.taken_up() as journal:
            return journal.load(progress)

    for _ in range(TRIES):
        path.write_bytes(mutated(content, random))
        with contextlib.suppress(CheckpointError):
            load(beginning(len(X)))
    path.write_bytes(content)
    progress = beginning(len(X))
    assert load(progress)
    assert len(progress.model.trees) == 1
