"""Wrong inputs of a year in use: each is told with the names of what is wrong and of the way out."""

import re
import shutil
import sqlite3
from functools import cache

import numpy as np
import pandas as pd
import pytest

import lgb_dp
from deployment import authority, certificates
from gbdt_commons.store import MemoryStore
from gbdt_commons.store_file import StoreFile
from gbdt_parties import messages, protocol
from gbdt_parties.messages import Finish
from kept_stores import end_process
from veilboost import command_line as cli
from veilboost.plans.declared import read_declared
from veilboost.plans.file_forms import FileForm
from veilboost.plans.tables import read_table
from xgb_fed import HorizontalParty, HorizontalXGBClassifier, train_exact
from xgb_fed.horizontal.common.party_state import PartyState
from xgb_fed.horizontal.common.rows import HorizontalRows
from xgb_fed.horizontal.common.told_rows import ToldRows

pytestmark = [
    pytest.mark.filterwarnings("ignore::xgb_fed.FewPartiesWarning"),
    pytest.mark.filterwarnings("ignore::lgb_dp.errors.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning"),
]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)).astype(np.float32).clip(-3, 3)
Y = (X[:, 0] > 0).astype(int)
TABLE = pd.DataFrame(X, columns=["age", "dose", "rate"])
ROWS = "id,x,y\nu1,1.5,0\nu2,2.5,1\nu3,-3.5,0\n"
PLAN = (
    'tls = "acme"\n[data]\nfile = "a.csv"\nid = "id"\nlabel = "y"\n{}'
    '[[parties]]\nname = "bank"\naddress = "h:1"\n'
)
BOUNDS = {"age": (-3, 3), "dose": (-3, 3), "rate": (-3, 3)}


@pytest.fixture
def place(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(authority("ca"), tmp_path / "ca")
    for name in ("acme", "bank"):
        shutil.copytree(certificates(name), tmp_path / name)
    (tmp_path / "a.csv").write_text(ROWS)
    (tmp_path / "plan.toml").write_text(PLAN.format(""))
    yield tmp_path
    end_process(tmp_path)


def serve(*more):
    """The bank's command."""
    return ["serve", "vertical", "--data", "a.csv", "--id", "id", "--tls", "bank", "--allow", "acme", *more]


def write(name, text, encoding="utf-8"):
    """Write a file before the command, and give its name."""

    def do(folder):
        (folder / name).write_bytes(text.encode(encoding))

    return do


COMMANDS = [
    ("a key that is there", None, ["certs", "bank", "--out", "bank"], ["party.key", "--renew"]),
    ("no days", None, ["certs", "north", "--days", "0"], ["--days=0", "at least 1"]),
    ("fewer days than none", None, ["certs", "north", "--days", "-3"], ["--days=-3"]),
    ("nothing to renew", None, ["certs", "north", "--renew"], ["certs/north/party.pem", "nothing to renew"]),
    (
        "the certificate of another party",
        None,
        ["certs", "eve", "--renew", "--out", "bank", "--authority", "ca"],
        ["bank/party.pem", "'bank'", "'eve'"],
    ),
    ("a folder that is not there", None, ["status", "nowhere"], ["nowhere", "correct the path"]),
    ("a folder of something else", write("b.txt", "x"), ["status", "b.txt"], ["b.txt"]),
    ("models of no folder", None, ["models", "nowhere"], ["nowhere", "not a folder"]),
    ("a semicolon file", write("a.csv", ROWS.replace(",", ";")), serve(), ["a.csv", 'separator = ";"']),
    ("a tab file", write("a.csv", ROWS.replace(",", "\t")), serve(), ["a.csv", 'separator = "tab"']),
    (
        "decimal commas",
        write("a.csv", ROWS.replace(",", ";").replace(".", ",")),
        serve("--separator", ";"),
        ["'x'", 'decimal = ","'],
    ),
    ("Latin-1", write("a.csv", ROWS + "é,4,1\n", "latin-1"), serve(), ["line 5", 'encoding = "latin-1"']),
    ("two separators", None, serve("--separator", ";;"), ["separator=';;'", "one sign"]),
    ("a sign for both", None, serve("--separator", ";", "--decimal", ";"), ["decimal=';'", "separator"]),
    ("an unknown encoding", None, serve("--encoding", "klingon"), ["'klingon'", "utf-8"]),
    ("no exclude file", None, serve("--exclude", "nowhere.csv"), ["nowhere.csv", "not a file"]),
    ("an exclude file of another column", write("g.csv", "p\nu1\n"), serve("--exclude", "g.csv"), ["g.csv"]),
    ("an exclude file of two columns", write("g.csv", "id,x\nu1,2\n"), serve("--exclude", "g.csv"), ["2"]),
    (
        "a pin that is none",
        write("b.toml", 'data = "a.csv"\ntls = "bank"\nallow = ["sha256:00"]\n'),
        ["status", "b.toml"],
        ["sha256:00", "64"],
    ),
    ("no rows", write("a.csv", "id,x,y\n"), serve(), ["a.csv"]),
    ("an id twice", write("a.csv", ROWS + "u1,4,1\n"), serve(), ["id"]),
    ("an id that is missing", write("a.csv", ROWS + ",4,1\n"), serve(), ["id"]),
    ("a text column", write("a.csv", "id,s,t\nu1,a,b\nu2,c,d\n"), serve(), ["'s'", "one_hot"]),
    (
        "an entry that there is not",
        write("plan.toml", PLAN.format("exlude = 'g'\n")),
        ["train", "plan.toml"],
        ["exlude", "exclude"],
    ),
    (
        "exclude without ids",
        write("plan.toml", PLAN.replace('id = "id"\n', "").format('exclude = "g.csv"\n')),
        ["train", "plan.toml"],
        ["exclude", "data.id"],
    ),
    ("a model folder that has something else", write("model", "x"), ["train", "plan.toml"], ["model"]),
    ("train before align", None, ["train", "plan.toml"], ["align plan.toml"]),
    ("a budget without its delta", None, ["serve", "private", "--budget", "1"], ["--budget"]),
    ("an abbreviation", None, serve("--max-bi", "8"), ["--max-bi"]),
]


@pytest.mark.parametrize(
    ("before", "arguments", "names"), [c[1:] for c in COMMANDS], ids=[c[0] for c in COMMANDS]
)
def test_a_command_names_what_is_wrong_and_the_way_out(place, capsys, before, arguments, names):
    if before is not None:
        before(place)
    try:
        code = cli.main(arguments)
    except SystemExit as end:
        code = end.code
    shown = capsys.readouterr()
    assert code not in (0, 70)
    assert all(name in shown.out + shown.err for name in names), shown.err


def party(rows=slice(200), *, label=Y, table=X, weight=None, **more):
    """Rows of a hospital."""
    own = table.iloc[rows] if isinstance(table, pd.DataFrame) else table[rows]
    return HorizontalRows.of(own, label[rows], "north", weight, True, 3, 0, 10_000, 100)


def after(*states, min_rows=10):
    """Tell sums of some states, one after the other, and try the last one."""
    store = MemoryStore()
    for number, state in enumerate(states):
        one = ToldRows(store, PartyState(bytes(32), store).stream, state, (), min_rows)
        one.check(None)
        if number < len(states) - 1:
            one.tell()


def flipped(n):
    """Labels of which the first n are others."""
    return np.where(np.arange(len(Y)) < n, 1 - Y, Y)


ROWS_CHANGED = [
    ("a row is added", lambda: after(party(), party(slice(201)))),
    ("nine rows are added", lambda: after(party(), party(slice(209)))),
    ("a row is gone", lambda: after(party(), party(slice(1, 200)))),
    ("a label is corrected", lambda: after(party(), party(label=flipped(1)))),
    ("nine labels are corrected", lambda: after(party(), party(label=flipped(9)))),
    ("a weight is changed", lambda: after(party(), party(weight=np.r_[2.0, np.ones(199)]))),
    ("many come, and one is gone", lambda: after(party(), party(slice(1, 260)))),
    ("states combine to a row", lambda: after(party(), party(slice(210)), party(slice(211)))),
    ("a row comes back", lambda: after(party(), party(slice(10, 200)), party(slice(9, 200)))),
    ("a column is gone", lambda: after(party(table=TABLE), party(table=TABLE[["age", "dose"]]))),
    ("a unit is another", lambda: after(party(), party(table=X * np.float32(1000)))),
]


@pytest.mark.parametrize("change", [c[1] for c in ROWS_CHANGED], ids=[c[0] for c in ROWS_CHANGED])
def test_changed_rows_are_refused_with_the_option_that_accepts_them(change):
    with pytest.raises(ValueError, match=r"'north'.*accept_rows"):
        change()


@cache
def private_model():
    """A private model of a table."""
    return private()


def private(**given):
    """Train a private model."""
    model = lgb_dp.DPLGBMClassifier(1.0, n_estimators=2, max_depth=2)
    return model.fit(given.pop("X", TABLE), given.pop("y", Y), **{"bounds": BOUNDS, **given})


def opened(tmp_path, **given):
    """The budget of a file."""
    return lgb_dp.Budget.open(tmp_path / "a.budget", **{"epsilon": 1.0, "delta": 1e-5, **given})


def spent(tmp_path):
    """A budget that is used up."""
    budget = opened(tmp_path)
    private(budget=budget)
    return budget


def horizontal(table=TABLE):
    """A model of rows apart."""
    return HorizontalXGBClassifier(n_estimators=1, max_depth=2).fit(
        parties=[(table[:150], Y[:150]), (table[150:], Y[150:])]
    )


def text_of(path, text):
    """A file with some text."""
    path.write_text(text)
    return path


def mixed():
    """A table whose categories are other ones than those that were declared."""
    return TABLE.assign(sex=np.where(Y > 0, "1", "2"))


def closed_store(folder, version):
    """A store of another version."""
    store = StoreFile(folder / "s.store", "a tester")
    store.close()
    with sqlite3.connect(folder / "s.store") as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    return StoreFile(folder / "s.store", "a tester")


CALLS = [
    ("another epsilon of a file", lambda p: (opened(p), opened(p, epsilon=2.0)), ["epsilon"]),
    ("another delta of a file", lambda p: (opened(p), opened(p, delta=1e-6)), ["delta"]),
    ("a file that is no budget", lambda p: lgb_dp.Budget.open(text_of(p / "a", "x" * 100)), ["a"]),
    ("a new budget without a size", lambda p: lgb_dp.Budget.open(p / "b.budget"), ["epsilon"]),
    ("a budget that is used up", lambda p: private(budget=spent(p)), ["left"]),
    ("no models in a plan", lambda p: opened(p).plan(0), ["n_models"]),
    ("a plan of what is spent", lambda p: spent(p).plan(12), ["left"]),
    (
        "a report in place of its cost",
        lambda p: opened(p).charge(private_model().privacy_, "a"),
        ["report", "cost"],
    ),
    ("a column that is gone", lambda p: private_model().predict(TABLE[["age", "dose"]]), ["rate"]),
    (
        "other categories",
        lambda p: lgb_dp.encode(mixed(), private(X=mixed(), categories={"sex": ["m", "f"]}).booster_),
        ["sex", "accept_undeclared"],
    ),
    ("text without categories", lambda p: private(X=mixed().assign(city="a")), ["sex", "city"]),
    (
        "a label of no class",
        lambda p: lgb_dp.DPLGBMClassifier(1.0, label_overflow="raise").fit(
            TABLE, ["yes", "no", "who"] * 100, classes=["yes", "no"], bounds=BOUNDS
        ),
        ["y"],
    ),
    (
        "columns that the model has not",
        lambda p: lgb_dp.encode(TABLE[["age"]], private_model().booster_),
        ["dose", "rate"],
    ),
    ("a model that is not there", lambda p: lgb_dp.encode(TABLE, p / "m.txt"), ["m.txt"]),
    ("a horizontal model's columns", lambda p: horizontal().predict(TABLE[["age", "dose"]]), ["rate"]),
    (
        "parties of other columns",
        lambda p: train_exact(
            {}, [HorizontalParty(TABLE, Y, "a"), HorizontalParty(TABLE[["age", "dose"]], Y, "b")], 1
        ),
        ["b"],
    ),
    ("another min_similar", lambda p: HorizontalParty(X, Y, "a", min_similar=0), ["min_similar"]),
    ("an option of no state", lambda p: after(party(), party(slice(201))), ["accept_rows"]),
    ("a store of a later release", lambda p: closed_store(p, 99), ["99"]),
    ("a store of an earlier release", lambda p: closed_store(p, 1), ["version 1"]),
    (
        "a bound that is no number",
        lambda p: read_declared(text_of(p / "c.toml", 'label="y"\n[bounds]\nx=["a",2]\n')),
        ["'x'"],
    ),
    (
        "a file of one column",
        lambda p: read_table(text_of(p / "t.csv", "id\nu1\n"), id_column="id"),
        ["t.csv"],
    ),
    (
        "an exclude file with dates",
        lambda p: read_table(
            text_of(p / "t.csv", ROWS),
            id_column="id",
            label="y",
            form=FileForm(exclude=str(text_of(p / "g.csv", "day\n1\n"))),
        ),
        ["g.csv"],
    ),
    (
        "a version two away",
        lambda p: messages.read(
            bytes(messages.write(bytes(16), 1, Finish()))[:4]
            + (protocol.VERSION + 5).to_bytes(2, "little")
            + bytes(messages.write(bytes(16), 1, Finish()))[6:]
        ),
        ["version"],
    ),
]


@pytest.mark.parametrize(("call", "names"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS])
def test_a_call_names_what_is_wrong(tmp_path, call, names):
    with pytest.raises(Exception, match=r"\S") as caught:
        call(tmp_path)
    end_process(tmp_path)
    assert isinstance(caught.value, (ValueError, TypeError, OSError, RuntimeError))
    assert all(re.search(name, str(caught.value)) for name in names), caught.value


def test_the_table_has_sixty_inputs():
    assert len(COMMANDS) + len(ROWS_CHANGED) + len(CALLS) >= 60
