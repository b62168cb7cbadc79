"""A passive party that cheats to read labels, and an active one whose requests could give labels away."""

from contextlib import closing

import numpy as np
import pytest
import xgboost

import xgb_fed
from gbdt_parties import messages
from gbdt_parties.errors import InvalidDataError, PartyRefusedError, PartyUnavailableError, ProtocolError
from kept_stores import restarted
from packed_fields import fields_of
from vertical_training import Recorder, assert_same_trees, parties_of, problem, stock, text_of, train
from xgb_fed import ActiveData, LocalParty, Plain
from xgb_fed.boosting.features import read_columns
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.vertical.passive.journal import Journals
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.protocol.messages import (
    MIN_ROWS,
    Assignments,
    FindSplits,
    Gradients,
    OpenModel,
    OpenTraining,
    SplitNodes,
    SplitStatistics,
    StartTree,
    TrainingOpened,
)
from xgb_fed.vertical.training.checkpoint import ENTRY, ROLE, STORE_FILE
from xgb_fed.vertical.trees.tree_record import Restart

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")

PARAMS = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 8, "base_score": 0.5}
N = 120


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("gbdt_parties.patience.SECONDS_BETWEEN_TRIES", 0.0)


def data():
    """One strong column at the passive party, so that it wins splits."""
    rng = np.random.default_rng(3)
    strong = rng.normal(size=N).astype(np.float32)
    y = (strong + 0.4 * rng.normal(size=N) > 0).astype(np.float32)
    return rng.normal(size=(N, 2)).astype(np.float32), strong[:, None], y


class Cheat:
    """A passive party whose bins move at will from some moment on.

    Parameters
    ----------
    X : ndarray
    other : ndarray
        The columns that it pretends to have after its first death.
    deaths : int
        How often it is lost after it got `SplitNodes`.
    """

    name = "cheat"

    def __init__(self, X, other, deaths=0, at=SplitNodes):
        self.X, self.other, self.deaths, self.at = X, other, deaths, at
        self.splits_by_model, self.journals = {}, Journals()
        self.won = []
        self.live(X)

    def live(self, X):
        self.handler = PassiveParty(read_columns(X), [], self.splits_by_model, journals=self.journals)

    def handle(self, request):
        message = messages.read(request).message
        if isinstance(message, SplitNodes):
            self.won.append((message.nodes.tolist(), message.columns.tolist(), message.last_left.tolist()))
        if isinstance(message, self.at) and self.deaths:
            self.deaths -= 1
            self.live(self.other)
            raise PartyUnavailableError("party 'cheat' is unavailable")
        return self.handler.handle(request)


def with_one_row_moved(X, y, row):
    """Counts per bin stay if cuts do: a row changes places with one of another label, far away."""
    moved = X.copy()
    other = int(np.argmax(np.abs(X[:, 0] - X[row, 0]) * (y != y[row])))
    moved[[row, other]] = X[[other, row]]
    return moved


def cuts(X):
    return xgboost.QuantileDMatrix(X, max_bin=PARAMS["max_bin"]).get_quantile_cut()[1]


class Forgiving(Journals):
    """Journals of a cheat, who does not hold itself to its own terms."""

    def find(self, model):
        return None


@pytest.mark.filterwarnings("ignore::xgb_fed.LabelLeakWarning")
@pytest.mark.parametrize("params", [{}, {"subsample": 0.5}, {"goss": (0.2, 0.3)}])
def test_attack_the_order_of_positions_says_nothing(params):
    """Before, they left in the frame's order: of cases stacked on controls, every label was read."""
    X, y = problem(n=400)
    rows = np.random.default_rng(1).choice(400, 300, replace=False)
    rows = np.concatenate([np.sort(rows[y[rows] == label]) for label in (1, 0)])
    weight = np.where(y == 1, 2.0, 1.0).astype(np.float32)
    (bank,) = map(Recorder, parties_of([X[:, 3:]]))

    def trained(rows):
        active = ActiveData(X[rows, :3], y[rows], weight[rows], rows)
        settings = {**PARAMS, **params, "random_state": 1}
        return xgb_fed.train(settings, active, [bank], 3, cipher=Plain(), verbose_eval=False)

    model = trained(rows)
    predicted = model.predict(X[rows, :3], [bank], rows=rows)
    leaves = model.predict(X[rows, :3], [bank], rows=rows, pred_leaf=True)
    requests = [messages.read(request).message for request in bank.requests]
    left = [m.rows for m in requests if isinstance(m, (OpenTraining, OpenModel))]
    assert len(left) == 3
    for positions in left:
        assert np.array_equal(positions, np.sort(rows))
    assert text_of(model) == text_of(trained(np.sort(rows)))
    everybody = model.predict(X[:, :3], [bank])
    assert np.array_equal(predicted, everybody[rows])
    assert np.array_equal(leaves, model.predict(X[:, :3], [bank], pred_leaf=True)[rows])
    if not params:
        ascending = np.sort(rows)
        pooled = stock(PARAMS, X[ascending], y[ascending], 3, weight[ascending])
        assert_same_trees(model.export_booster([bank]), pooled)
    with pytest.raises(InvalidDataError, match=r"299 row.*300 rows"):
        model.predict(X[rows, :3], [bank], rows=rows[1:])


def test_attack_of_a_party_that_dies_and_comes_back_with_other_bins():
    """The published attack: every death after SplitNodes would read another label, without limit."""
    X, strong, y = data()
    others = [with_one_row_moved(strong, y, row) for row in range(0, N, 10)]
    # With XGBoost 3.4, cuts depend on the order of rows; a party that announces others is refused at once.
    others = [other for other in others if np.array_equal(cuts(other), cuts(strong))]
    assert len(others) >= 5
    for other in others:
        party = Cheat(strong, other, deaths=1)
        party.journals = Forgiving()
        party.live(strong)
        with pytest.raises(ProtocolError, match=r"'cheat'.*fail"):
            train(PARAMS, X, y, [party], 1, patience=60)
        assert len(party.won) == 1


def test_attack_across_a_crash_of_the_active_party(tmp_path):
    """The record of the tree under way is on disk: a run taken up from its checkpoint checks it, too."""
    X, strong, y = data()
    party = Cheat(strong, with_one_row_moved(strong, y, 7), deaths=1)
    party.journals = Forgiving()
    party.live(strong)
    with pytest.raises(PartyUnavailableError):
        train(PARAMS, X, y, [party], 1, checkpoint=tmp_path)
    with closing(restarted(tmp_path, STORE_FILE, ROLE)) as store:
        *_, last = (entry for entry, _ in store.entries(ENTRY, "") if entry.get("kind") == "under way")
    assert last["tree"]["told"] == [["cheat", 0]]
    with pytest.raises(ProtocolError, match="fail the checks"):
        train(PARAMS, X, y, [party], 1, checkpoint=tmp_path)
    assert len(party.won) == 1


def test_attack_by_endless_honest_deaths_learns_nothing_new(caplog):
    """The same statistics, the same SplitNodes; restarts are named in the model, the traffic and the log."""
    X, strong, y = data()
    undisturbed = train(PARAMS, X, y, [Cheat(strong, strong)], 2)
    party = Cheat(strong, strong, deaths=5)
    model = train(PARAMS, X, y, [party], 2, patience=60)
    assert len({str(won) for won in party.won[:6]}) == 1
    assert model.restarts == [Restart(0, 0, "cheat")] * 5
    assert not undisturbed.restarts
    assert str(model.traffic).count("tree 0 was restarted: party 'cheat'") == 5
    assert caplog.text.count("tree 0 was restarted: party 'cheat'") == 5
    trees = [[tree.to_dict() for tree in m.trees] for m in (model, undisturbed)]
    assert trees[0] == trees[1]


@pytest.mark.parametrize("at", [StartTree, Gradients, FindSplits])
def test_other_losses_are_no_restarts(at):
    X, strong, y = data()
    party = Cheat(strong, strong, deaths=3, at=at)
    assert not train(PARAMS, X, y, [party], 1, patience=60).restarts


class Liar:
    """Statistics of false columns: per message, what ``lie(sums, counts, liar)`` makes of the sums."""

    def __init__(self, lie, after=0):
        self.lie, self.left = lie, after
        self.told = []

    def __call__(self, request, answer):
        question, envelope = messages.read(request), messages.read(answer)
        message = envelope.message
        if isinstance(question.message, OpenTraining):
            self.opening = question.message
        if isinstance(question.message, SplitNodes):
            self.told.append(question.message)
        if isinstance(message, TrainingOpened):
            self.n_bins = int(message.n_bins[0])
        if not isinstance(message, SplitStatistics):
            return answer
        self.is_root = not len(question.message.assignment)
        self.left -= 1
        if self.left >= 0:
            return answer
        key, bits = read_public_key(self.opening.public_key), self.opening.field_bits
        per = (key.plaintext_limit.bit_length() - 1) // bits
        packed = [
            f for value in key.decrypt(key.from_bytes(message.sums)) for f in fields_of(value, bits, per)
        ]
        counts = message.counts.copy()
        sums = np.zeros(len(counts), dtype=object)
        sums[counts > 0] = packed[: np.count_nonzero(counts)]
        self.lie(sums, counts, self)
        values = [int(v) for v in sums[counts > 0]]
        values += [0] * (-len(values) % per)
        again = [
            sum(f << bits * (per - 1 - k) for k, f in enumerate(values[at : at + per]))
            for at in range(0, len(values), per)
        ]
        return messages.write(
            envelope.session, envelope.sequence, SplitStatistics(counts, key.to_bytes(key.encrypt(again)))
        )


def row_moved(sums, counts, liar):
    """Base ∪ {row}: one row's gradient (known from a message in clear) moves to the next bin."""
    gradient = sums[0] // int(counts[0])
    sums[0] -= gradient
    sums[1] += gradient
    counts[0] -= 1
    counts[1] += 1


def row_added(sums, counts, liar):
    """A candidate with a row that another bin keeps, too."""
    gradient = sums[1] // int(counts[1])
    sums[0] += gradient
    counts[0] += 1


def false_in_a_child(sums, counts, liar):
    """A row moves to a bin that has rows of the sibling only: the bins still add up to the child."""
    if not liar.is_root:
        occupied = np.flatnonzero(counts)
        other = next(k for k in range(len(counts)) if k not in occupied)
        gradient = sums[occupied[0]] // int(counts[occupied[0]])
        sums[occupied[0]] -= gradient
        sums[other] += gradient
        counts[occupied[0]] -= 1
        counts[other] += 1


def sums_without_rows(sums, counts, liar):
    sums[0] += 1


LIES = {
    "a row in another bin of the root": (row_moved, 0),
    "a row twice": (row_added, 0),
    "a row in another bin of a child": (false_in_a_child, 1),
    "the last bit": (sums_without_rows, 0),
    "a row in another bin of a later tree's root": (row_moved, 2),
}


def lie_to(lie, after, rounds=2):
    X, strong, y = data()
    liar = Liar(lie, after)
    party = Recorder(LocalParty(strong, "liar"), liar)
    try:
        train(PARAMS, X, y, [party], rounds)
    finally:
        lie_to.told = liar.told


@pytest.mark.parametrize(("lie", "after"), LIES.values(), ids=LIES)
def test_attack_by_false_candidates(lie, after):
    """Sums of bins that no fixed columns have: one error, the same for all, before a candidate is named."""
    with pytest.raises(ProtocolError) as caught:
        lie_to(lie, after)
    assert str(caught.value) == "party 'liar': its split statistics fail the checks"
    assert len(lie_to.told) <= after


def test_the_false_candidates_above_would_win_without_the_checks(monkeypatch):
    from xgb_fed.vertical.growing.passive_columns import PassiveFinder

    monkeypatch.setattr(PassiveFinder, "check", lambda *_: None)
    monkeypatch.setattr(PassiveFinder, "check_left", lambda *_: None)
    for name, (lie, after) in LIES.items():
        if name != "the last bit":
            lie_to(lie, after)
        assert lie_to.told


def test_attack_by_more_columns_than_announced():
    """1,450 candidates came from a party with one column: bins are fixed before training."""
    X, strong, y = data()

    def answer_with_more(request, answer):
        envelope = messages.read(answer)
        if not isinstance(envelope.message, SplitStatistics):
            return answer
        message = envelope.message
        more = SplitStatistics(np.tile(message.counts, 50), message.sums)
        return messages.write(envelope.session, envelope.sequence, more)

    with pytest.raises(ProtocolError, match="fail the checks"):
        train(PARAMS, X, y, [Recorder(LocalParty(strong, "liar"), answer_with_more)], 1)


def test_attack_by_other_columns_after_a_loss():
    """Columns announced again after a loss are those announced first."""
    X, strong, y = data()
    party = Cheat(strong, np.round(strong), deaths=1, at=StartTree)
    party.journals = Forgiving()
    party.live(strong)
    with pytest.raises(ProtocolError, match="'cheat' announces other columns"):
        train(PARAMS, X, y, [party], 1, patience=60)


def test_attack_on_ties_reads_one_candidate_only():
    """Two equal columns tie at every candidate: XGBoost's first is named, and nothing of the other."""
    X, strong, y = data()
    party = Recorder(LocalParty(np.hstack([strong, strong]), "bank"))
    train(PARAMS, X, y, [party], 2)
    named = [m for m in party.messages() if isinstance(m, SplitNodes)]
    assert named
    for message in named:
        assert len(message.nodes) == len(message.columns) == len(set(message.nodes.tolist()))
        assert set(message.columns.tolist()) == {0}


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_attack_on_nodes_without_statistics_reads_no_labels(scale):
    """Which nodes have statistics is the same for every scale_pos_weight: row counts alone decide it."""
    X, y = problem(n=150, n_features=4, seed=1)
    params = {**PARAMS, "max_depth": 4, "scale_pos_weight": scale, "min_child_weight": 5}
    party = Recorder(parties_of([X[:, 2:]])[0])
    train(params, X[:, :2], y, [party], 1)
    for question, answer in zip(party.requests, party.answers, strict=True):
        message, reply = messages.read(question).message, messages.read(answer).message
        if isinstance(reply, TrainingOpened):
            n_bins = len(reply.counts)
        if isinstance(message, FindSplits):
            counts = reply.counts.reshape(-1, n_bins)
            of_first_column = counts[:, : n_bins // 2]
            assert (of_first_column.sum(axis=1) >= MIN_ROWS).all()
            # A node split by anybody has two children; both have statistics unless one has a single row.
            n_split = int((message.assignment > 0).sum())
            if len(message.assignment):
                assert 2 * n_split - (of_first_column.sum(axis=1) < 1).sum() >= len(counts) >= 2 * n_split - 2
            assert set(messages.tags(FindSplits)) == {"assignment", "left_rows"}


def test_small_nodes_get_no_statistics_and_others_may_split_them():
    X, y = problem(n=200, n_features=4, seed=2)
    sizes = {}
    for smallest in (2, 40):
        inner = LocalParty(X[:, 2:], "bank")
        inner.handler.min_node_rows = smallest
        party = Recorder(inner)
        model = train({**PARAMS, "max_depth": 5}, X[:, :2], y, [party], 2)
        n_bins = next(len(m.counts) for m in party.messages() if isinstance(m, TrainingOpened))
        counts = [m.counts.reshape(-1, n_bins) for m in party.messages() if isinstance(m, SplitStatistics)]
        sizes[smallest] = np.concatenate(counts)[:, : n_bins // 2].sum(axis=1).min()
        assert any(len(tree) > 15 for tree in model.trees)
    assert sizes[2] < 40 <= sizes[40]


@pytest.mark.parametrize(
    ("limits", "params", "reason"),
    [({"max_bin": 7}, {}, "max_bin up to 7, not 8"), ({"max_depth": 1}, {}, "max_depth up to 1, not 2")],
    ids=["max_bin", "max_depth"],
)
def test_limits_of_a_passive_party(limits, params, reason):
    X, strong, y = data()

    class Limited:
        name = "bank"
        handler = PassiveParty(read_columns(strong), [], {}, **limits)

        def handle(self, request):
            return self.handler.handle(request)

    with pytest.raises(PartyRefusedError, match=reason):
        train({**PARAMS, **params}, X, y, [Limited()], 1)


def test_attack_by_more_levels_than_agreed():
    """The depth of a tree is agreed at the opening; a deeper question ends the session."""
    X, strong, y = data()
    bank = Recorder(LocalParty(strong, "bank"))
    train({**PARAMS, "max_depth": 3}, X, y, [bank], 1)
    opening = messages.read(bank.requests[0])
    fields = {**opening.message.__dict__, "max_depth": 1}
    requests = [messages.write(opening.session, 0, OpenTraining(**fields)), *bank.requests[1:]]
    replay = LocalParty(strong, "bank")
    answers = [messages.read(replay.handle(request)).message for request in requests]
    levels = [k for k, r in enumerate(bank.requests) if isinstance(messages.read(r).message, FindSplits)]
    assert isinstance(answers[levels[0]], SplitStatistics)
    assert "more than 1 levels" in answers[levels[1]].reason


def test_draws_are_reproducible_and_not_numpys():
    """Samples are seen by others: they come from a stream of which no part tells the seed."""
    X, strong, y = data()
    samples = []
    for seed in (1, 1, 2):
        party = Recorder(LocalParty(strong, "bank"))
        train({**PARAMS, "subsample": 0.5, "random_state": seed}, X, y, [party], 2)
        starts = [m for m in party.messages() if isinstance(m, StartTree)]
        samples.append([np.unpackbits(m.sampled_rows)[:N].tolist() for m in starts])
    assert samples[0] == samples[1] != samples[2]
    assert samples[0][0] != samples[0][1]
    from_numpy = np.random.default_rng([1, 0]).random(N) < 0.5
    assert samples[0][0] != from_numpy.astype(int).tolist()


def test_assignments_belong_to_the_candidate_that_was_named():
    X, strong, y = data()

    def others(request, answer):
        envelope = messages.read(answer)
        if not isinstance(envelope.message, Assignments):
            return answer
        bits = np.unpackbits(envelope.message.left_rows)[:N]
        first, last = np.flatnonzero(bits)[0], np.flatnonzero(1 - bits)[-1]
        bits[first], bits[last] = 0, 1
        lie = Assignments(envelope.message.split_ids, np.packbits(bits))
        return messages.write(envelope.session, envelope.sequence, lie)

    with pytest.raises(ProtocolError, match="'liar'"):
        train(PARAMS, X, y, [Recorder(LocalParty(strong, "liar"), others)], 1)
