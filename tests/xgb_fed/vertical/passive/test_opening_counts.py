"""Rows per bin that openings tell are statistics like others: counted before they leave, limited, kept."""

import errno
from datetime import datetime, timezone

import numpy as np
import pytest

from counted_answers import Talk, opening
from gbdt_commons.store_file import StoreFile
from gbdt_parties import messages
from gbdt_parties.identity.alignment import Alignment
from gbdt_parties.identity.certificates import Identity
from kept_stores import end_process, restarted
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.passive import disclosed_statistics
from xgb_fed.vertical.passive.disclosed_statistics import GIVEN, OPENED, DisclosedStatistics
from xgb_fed.vertical.passive.service import Limits, PassiveService
from xgb_fed.vertical.protocol.messages import CategoriesOpened, TrainingOpened

N = 238
RANDOM = np.random.default_rng(0)
X = np.column_stack(
    [
        RANDOM.integers(0, 2, N),
        RANDOM.integers(0, 8, N),
        np.where(RANDOM.random(N) < 0.2, np.nan, RANDOM.integers(0, 4, N)),
    ]
).astype(np.float32)


class Table:
    columns, ids, has_ids = read_columns(X, "X"), [f"p{k}" for k in range(N)], False


class Bank:
    """A served party, and what it has on the disk of what the caller got."""

    def __init__(self, folder, table=Table, row_sets=(), caller="acme", **limits):
        end_process(folder)
        self.service = PassiveService(table, folder, "bank", Limits(allow_plain=True, **limits))
        self.who = Identity(caller, "", datetime.max.replace(tzinfo=timezone.utc))
        self.row_sets = row_sets

    def handle(self, request):
        return self.service.handle(self.who, self.row_sets, bytes(request))

    def ask(self, *args, **how):
        return Talk(self.handle).ask(opening(*args, **how))

    @property
    def given(self):
        """The running server's own count."""
        return self.service.kept_for(self.service.known_caller(self.who))[1]

    @property
    def counted(self):
        """As a server that is started now would read it, less what it writes ahead."""
        return DisclosedStatistics(store=self.service.store_of(self.who.name)).per_row


def subsets(n):
    random = np.random.default_rng(1)
    for _ in range(n):
        yield np.sort(random.permutation(N)[: int(random.integers(100, N))]).astype(np.int32)


def test_opening_counts_of_many_subsets_are_refused_before_they_solve_a_column(tmp_path):
    """240 openings, an hour's, were 240 equations: every discrete value of 238 rows, whatever the limit."""
    bank = Bank(tmp_path)
    equations, told = [], []
    for rows in subsets(240):
        opened = bank.ask(len(rows), rows)
        if isinstance(opened, messages.Refusal):
            break
        equations.append(np.isin(np.arange(N), rows).astype(float))
        told.append(opened.counts)
    assert "--max-statistics" in opened.reason
    assert "Limits.max_statistics" in opened.reason
    assert 10 < np.linalg.matrix_rank(equations) == len(equations) <= Limits.max_statistics * N
    solution = np.linalg.lstsq(np.array(equations), np.array(told, dtype=float), rcond=None)[0]
    right = solution[:, 2:10].argmax(axis=1) == X[:, 1]
    assert right.mean() < 0.5, "guessing finds 1/8; all 240 openings found all"


def test_opening_counts_of_no_rows_are_given_at_a_limit_of_nothing(tmp_path):
    bank = Bank(tmp_path, max_statistics=0.0)
    refused = bank.ask(N)
    assert isinstance(refused, messages.Refusal)
    assert "at most 0" in refused.reason


def test_opening_counts_are_given_once_for_the_same_rows_and_bins(tmp_path):
    some = np.arange(0, 200, dtype=np.int32)
    bank = Bank(tmp_path, max_statistics=1.0)
    bank.ask(N)
    once = bank.given.per_row
    assert once == pytest.approx(1 / N)
    for _ in range(3):
        assert isinstance(bank.ask(N), TrainingOpened)
        assert bank.given.per_row == once
        bank = Bank(tmp_path, max_statistics=1.0)  # restarted: what was written ahead counts as given
        bank.ask(N, max_bin=8)
        once = bank.given.per_row
    for n_rows, more in [(N, {"max_bin": 4}), (200, {"rows": some}), (199, {"rows": some[1:]})]:
        before = bank.given.per_row
        for _ in range(2):
            assert isinstance(bank.ask(n_rows, **more), TrainingOpened)
            assert bank.given.per_row == pytest.approx(before + 1 / n_rows)
    other = Bank(tmp_path, caller="umbrella", max_statistics=1.0)
    other.ask(N)
    assert other.counted == pytest.approx(1 / N, abs=2e-3)


def test_opening_counts_of_other_rows_with_the_same_values_are_new(tmp_path):
    """Rows are told apart by their names, not by their positions or values; a changed table is new, too."""
    values = np.tile([[0.0], [1.0]], (100, 1)).astype(np.float32)

    class Twins:
        columns, ids, has_ids = read_columns(values, "X"), [f"p{k:03d}" for k in range(200)], True

    def of(ids, table=Twins):
        alignment = Alignment(tuple(ids))
        bank = Bank(tmp_path, table, (alignment.digest,), max_statistics=1.0)
        alignment.save(bank.service.known_caller(bank.who).rows_file(alignment.digest))
        before = bank.given.per_row
        assert isinstance(bank.ask(100), TrainingOpened)
        return bank.given.per_row - before

    class Changed:
        columns, ids, has_ids = read_columns(1 - values, "X"), Twins.ids, True

    class Shifted:
        columns, ids, has_ids = Twins.columns, [*Twins.ids[2:], "q1", "q2"], True

    first, second = Twins.ids[:100], Twins.ids[100:]
    assert [of(first), of(first), of(second)] == pytest.approx([0.01, 0, 0.01])
    assert [of(first, Changed), of(second, Shifted)] == pytest.approx([0.01, 0])
    assert of([*second[2:], "q1", "q2"], Shifted) == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (opening(N - 1), "has 237 rows"),
        (opening(N, max_bin=9), "max_bin up to 8"),
        (opening(N, max_depth=4), "max_depth up to 3"),
        (opening(N, eval_rows=[5]), "evaluation sets"),
        (opening(N, n_classes=1 << 21), "n_groups of OpenTraining must be"),
        (opening(99, np.arange(99)), "rows, not 99"),
        (opening(N, np.zeros(N)), "must be different"),
    ],
    ids=["n_rows", "max_bin", "max_depth", "eval_rows", "n_groups", "few rows", "same rows"],
)
def test_opening_counts_are_not_in_refused_openings_and_cost_nothing(tmp_path, message, reason):
    bank = Bank(tmp_path, max_bin=8, max_depth=3, max_statistics=1.0)
    refused = Talk(bank.handle).ask(message)
    assert isinstance(refused, messages.Refusal)
    assert reason in refused.reason
    assert bank.counted == 0


@pytest.mark.parametrize(
    "ending", [messages.Abort(), messages.Finish(), None], ids=["abort", "finish", "lost"]
)
def test_opening_counts_stay_counted_however_the_session_ends(tmp_path, ending):
    bank = Bank(tmp_path, max_statistics=1.0)
    talk = Talk(bank.handle)
    talk.ask(opening(N))
    if ending is not None:
        talk.ask(ending)
    assert Bank(tmp_path).counted >= 1 / N


def test_opening_counts_are_on_the_disk_before_they_leave(tmp_path, monkeypatch):
    """At each failure of the disk, what the file says is no less than what was answered."""
    bank = Bank(tmp_path, max_statistics=1.0)
    answered, fails = 0, True
    write = StoreFile.write_entry

    def failing(store, kind, key, place, content):
        if fails and kind.endswith(failing_kind):
            raise OSError(errno.EIO, "broken")
        write(store, kind, key, place, content)

    monkeypatch.setattr(StoreFile, "write_entry", failing)
    for k, rows in enumerate(subsets(8)):
        fails, failing_kind = k % 2 == 0, (GIVEN if k % 4 else OPENED).name
        opened = bank.ask(len(rows), rows)
        assert isinstance(opened, messages.Refusal) == fails
        answered += 0 if fails else 1 / len(rows)
        assert bank.counted >= answered - 1e-12
        if fails:
            assert not isinstance(opened, TrainingOpened)
    assert bank.given.per_row == pytest.approx(answered)


def test_opening_counts_of_categories_and_missing_values_are_counted(tmp_path):
    class Categorical:
        columns = read_columns(X, "X", feature_types=["c", "q", "q"])
        ids, has_ids = Table.ids, False

    bank = Bank(tmp_path, Categorical, max_statistics=1.0)
    opened = bank.ask(N)
    assert isinstance(opened, CategoriesOpened)
    assert opened.counts[-1] == np.isnan(X[:, 2]).sum()
    assert bank.counted >= 1 / N


def test_opening_counts_that_were_forgotten_are_counted_again(tmp_path, monkeypatch):
    monkeypatch.setattr(disclosed_statistics, "MAX_OPENINGS", 2)
    given = DisclosedStatistics(store=restarted(tmp_path))
    for what in "abcb":
        given.add_opening(what, 100)
    assert given.per_row == pytest.approx(0.03)
    given.add_opening("a", 100)
    assert given.per_row == pytest.approx(0.04)
    again = DisclosedStatistics(store=restarted(tmp_path))
    before = again.per_row
    for what in "ac":
        again.add_opening(what, 100)
    assert again.per_row == before
    again.add_opening("b", 100)
    assert again.per_row > before
