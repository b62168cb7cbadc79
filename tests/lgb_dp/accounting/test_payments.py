"""Budgets in a file: what processes, threads, crashes, copies and clocks can do to them."""

import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import lightgbm as lgb
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import lgb_dp
from gbdt_commons.errors import StoreError
from gbdt_commons.store_file import StoreFile
from lgb_dp.accounting.cost import Cost
from small_training import binary_data, dataset, train

X, Y = binary_data()
DELTA = 1e-5
OPEN = (
    "import sys, lgb_dp; from lgb_dp.accounting.cost import Cost; budget = lgb_dp.Budget.open(sys.argv[1])\n"
)
SPEND = """
n = 0
try:
    while True:
        budget.charge(Cost(1 / 64), "a result")
        n += 1
except lgb_dp.BudgetExceededError:
    print(n)
"""


def run(code, path, **how):
    return subprocess.Popen([sys.executable, "-c", OPEN + code, str(path)], stdout=subprocess.PIPE, **how)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "year.budget"


@pytest.fixture
def budget(path):
    return lgb_dp.Budget.open(path, 1.0)


def test_processes_cannot_spend_a_share_twice(budget, path):
    sides = [run(SPEND, path) for _ in range(2)]
    counts = [int(side.communicate(timeout=120)[0]) for side in sides]
    assert sum(counts) == 64
    assert budget.spent == Cost(1.0)
    assert [row["charge"] for row in budget.charges] == list(range(1, 65))


def test_threads_with_objects_of_their_own_cannot_spend_a_share_twice(budget, path):
    paid = []

    def spend(own):
        for _ in range(20):
            try:
                own.charge(Cost(1 / 32), "a result")
                paid.append(1)
            except lgb_dp.BudgetExceededError:
                pass

    threads = [
        threading.Thread(target=spend, args=(one,)) for one in [budget, budget, lgb_dp.Budget.open(path)]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paid) == 32
    assert budget.spent == Cost(1.0)


def test_a_forked_child_spends_the_same_budget(budget):
    child = os.fork()
    if not child:
        try:
            budget.charge(Cost(0.5), "the child's")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(lgb_dp.BudgetExceededError, match="mine"):
        budget.charge(Cost(0.75), "mine")
    assert [row["what"] for row in budget.charges] == ["the child's"]


@pytest.mark.parametrize(
    "code",
    [
        "budget.charge(Cost(0.75), 'killed'); os.kill(os.getpid(), 9)",
        "data = lgb_dp.Dataset([[i / 9] for i in range(9)], [0, 1, 0] * 3, bounds=(0, 1));"
        "import lightgbm; lightgbm.train({'objective': 'binary'}, data, 3, callbacks=[lgb_dp.DPBoost(0.75, "
        "budget=budget), lambda env: os.kill(os.getpid(), 9)])",
    ],
)
def test_a_fit_that_is_killed_stays_charged(budget, path, code):
    side = run("import os; " + code, path, stderr=subprocess.DEVNULL)
    assert side.wait(timeout=120) == -signal.SIGKILL
    assert budget.spent.epsilon == pytest.approx(0.75, abs=1e-12)
    with pytest.raises(lgb_dp.BudgetExceededError):
        budget.charge(Cost(0.5), "a result")


def test_what_was_paid_once_is_not_paid_again_by_another_process(budget, path):
    for _ in range(2):
        budget.charge(Cost(0.75), "a fit", once=("november", 1))
    code = "print(budget.charge(Cost(0.75), 'a fit', once=('november', 1)))"
    assert b"charge 1 of the budget" in run(code, path).communicate(timeout=120)[0]
    assert budget.spent == Cost(0.75)
    for once in ([1], {"a"}, lgb, ("a", None)):
        with pytest.raises(lgb_dp.ArgumentTypeError, match="once must be made"):
            budget.charge(Cost(0.75), "a fit", once=once)


def test_a_cross_validation_is_charged_once(path):
    budget, data = lgb_dp.Budget.open(path, 4.0), dataset(X, Y)
    for n in (1, 2):
        with pytest.warns(lgb_dp.NotPrivateWarning):
            lgb.cv(
                {"objective": "binary", "verbosity": -1, "max_depth": 2},
                data,
                2,
                folds=lgb_dp.folds(3, data),
                callbacks=[lgb_dp.DPBoost(1.0, budget=budget)],
            )
        assert budget.spent.epsilon == pytest.approx(2.0 * n)


def test_models_and_charges_name_each_other(path):
    budget = lgb_dp.Budget.open(path, 2.0, DELTA)
    bounds, bought = lgb_dp.private_bounds(X, 0.5, DELTA, budget=budget)
    data = lgb_dp.Dataset(X, Y, bounds=bounds, paid_for=[bought])
    model = train(data, lgb_dp.NewtonBoost(0.5, DELTA, budget=budget))
    assert bought.notes[0] == f"charge 1 of the budget {budget.id} has paid for it"
    assert f"charge 2 of the budget {budget.id} has paid for it" in model.privacy.notes
    assert [(row["what"], row["objective"]) for row in budget.charges] == [
        ("private bounds", ""),
        ("NewtonBoost", "binary"),
    ]
    for shown in (repr(budget), budget._repr_html_()):
        assert "NewtonBoost, binary" in shown
        assert budget.charges[1]["date"] in shown
    assert budget.report().ledger == lgb_dp.Budget.open(path).report().ledger


def test_the_reason_why_a_result_is_not_private_is_kept(path, budget):
    budget.void(["a reason"])
    budget.void(["a reason", "another"])
    assert lgb_dp.Budget.open(path).report().reasons == ("a reason", "another")


def test_a_pickle_is_the_path(budget, path):
    other = pickle.loads(pickle.dumps(budget))
    other.charge(Cost(0.75), "a result")
    assert budget.spent == other.spent == Cost(0.75)
    written = pickle.dumps(budget)
    path.rename(path.with_name("elsewhere"))
    for use in (lambda: pickle.loads(written), lambda: budget.charge(Cost(0.1), "a result"), budget.report):
        with pytest.raises(StoreError, match="no budget is at"):
            use()
    assert not path.exists()
    lgb_dp.Budget.open(path, 1.0)
    for use in (lambda: pickle.loads(written), lambda: budget.charge(Cost(0.1), "a result"), budget.report):
        with pytest.raises(StoreError, match="another budget"):
            use()


@pytest.mark.filterwarnings("ignore::lgb_dp.NotPrivateWarning")
def test_workers_of_a_grid_search_pay_from_one_file(path):
    budget = lgb_dp.Budget.open(path, 6.0, DELTA)
    model = clone(lgb_dp.DPLGBMClassifier(0.5, delta=DELTA, n_estimators=2))
    search = GridSearchCV(model, {"max_depth": [1, 2]}, cv=2, n_jobs=2)
    search.fit(X, Y, bounds=(-3, 3), budget=budget)
    assert len(budget.charges) == 5
    assert search.best_estimator_.privacy_.budget == budget.id


def overwritten(path, budget):
    before = path.read_bytes()
    budget.charge(Cost(0.5), "a result")
    path.write_bytes(before)


def replaced(path, budget):
    shutil.copy(path, path.with_name("backup"))
    budget.charge(Cost(0.5), "a result")
    os.replace(path.with_name("backup"), path)


def linked(path, budget):
    os.link(path, path.with_name("second"))


def soft_linked(path, budget):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def damaged(path, budget):
    budget.charge(Cost(0.5), "a result")
    path.write_bytes(path.read_bytes().replace(b"a result", b"a Result"))


def cut(path, budget):
    path.write_bytes(path.read_bytes()[:5000])


def of_another_kind(path, budget):
    path.unlink()
    StoreFile(path, "a party's ledger").close()


def of_an_earlier_release(path, budget):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")


@pytest.mark.parametrize(
    ("change", "named", "is_found_when_opened"),
    [
        (overwritten, "was restored", True),
        (replaced, "is a copy", True),
        (linked, "second name", True),
        (soft_linked, "it is a link", True),
        (damaged, "damaged at record", True),
        (cut, "year.budget", True),
        (of_another_kind, "another budget|keeps the state", False),
        (of_an_earlier_release, "an earlier release", True),
    ],
)
def test_a_file_that_is_not_the_budgets_own_pays_for_nothing(
    budget, path, change, named, is_found_when_opened
):
    change(path, budget)
    for use in (budget.report, lambda: budget.charge(Cost(0.1), "a result")):
        with pytest.raises(StoreError, match=named):
            use()
    if is_found_when_opened:
        for limits in ((), (1.0,)):
            with pytest.raises(StoreError, match=named):
                lgb_dp.Budget.open(path, *limits)


def test_a_copy_is_gone_on_with_by_name_and_pays_again_for_what_others_build_on(path):
    budget = lgb_dp.Budget.open(path, 1.0)
    first = train(dataset(X, Y), lgb_dp.DPBoost(0.25, budget=budget))
    other = path.with_name("restored")
    shutil.copy(path, other)
    restored = lgb_dp.Budget.open(other, 1.0, accept_copy=True)
    assert restored.id != budget.id
    lgb.train(
        {"objective": "binary", "verbosity": -1, "max_depth": 2},
        dataset(X, Y),
        2,
        init_model=first,
        callbacks=[lgb_dp.DPBoost(0.25, budget=restored)],
    )
    assert restored.spent.epsilon == pytest.approx(0.75)
    for place in (path, other):
        with pytest.raises(lgb_dp.InvalidArgumentError, match="accept_copy must be left"):
            lgb_dp.Budget.open(place, 1.0, accept_copy=True)


def test_a_backup_written_into_the_file_is_gone_on_with_by_name_alone(path):
    budget = lgb_dp.Budget.open(path, 1.0)
    overwritten(path, budget)
    restored = lgb_dp.Budget.open(path, 1.0, accept_copy=True)
    assert restored.id != budget.id
    restored.charge(Cost(0.5), "a result")
    assert lgb_dp.Budget.open(path).spent == Cost(0.5)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"epsilon": 2.0}, r"epsilon = 1\.0, not 2\.0"),
        ({"epsilon": 1.0, "delta": 1e-6}, r"delta = 0\.0, not 1e-06"),
        ({"epsilon": 1.0, "pure_epsilon": 0.5}, "pure_epsilon"),
        ({"delta": 1e-6}, "epsilon must be given"),
        ({"epsilon": 0.0}, "epsilon"),
    ],
)
def test_a_budget_keeps_the_limits_that_it_was_begun_with(budget, path, given, named):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=named):
        lgb_dp.Budget.open(path, **given)
    assert lgb_dp.Budget.open(path).limit == budget.limit


def test_a_place_that_cannot_be_written_is_an_error_of_the_system(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        lgb_dp.Budget.open(tmp_path / "file" / "year.budget", 1.0)
    with pytest.raises(StoreError, match="no budget is at"):
        lgb_dp.Budget.open(tmp_path / "year.budget")
