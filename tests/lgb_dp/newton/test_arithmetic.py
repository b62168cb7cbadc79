"""Both parties round alike, or do not begin: every function of public numbers has a digest in the task."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import lightgbm
import numpy as np
import pytest

import lgb_dp
from columns_apart import BUDGET, bank, trained
from gbdt_parties.errors import PartyRefusedError
from lgb_dp.errors import FederatedCheckpointError, InvalidArgumentError
from lgb_dp.federated.ledger import read_ledger
from lgb_dp.newton import arithmetic
from lgb_dp.newton.arithmetic import FUNCTIONS, arguments, check_digests, check_versions, digests, versions
from lgb_dp.vertical import train
from lgb_dp.vertical.replica import ReplicaAnswers
from lgb_dp.vertical.task import ColumnTask

pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")

ROOT = Path(lgb_dp.__file__).parent
PLACES = ("accounting", "boosting", "newton", "vertical")
MODULES = {"np": "numpy", "math": "math", "chi2": "scipy.stats.chi2"}
EXACT_OF_MATH = """
ceil comb copysign fabs floor fsum inf isclose isfinite isinf isnan isqrt nan nextafter pi prod sqrt
"""
INEXACT_OF_NUMPY = """
exp exp2 expm1 log log2 log10 log1p logaddexp power float_power sin cos tan sinh cosh tanh arcsin
arccos arctan arctan2 arcsinh arccosh arctanh hypot cbrt dot vdot inner matmul tensordot einsum convolve
correlate linalg polyfit interp fft sinc i0 trapezoid cov corrcoef
"""
"""Functions that are rounded correctly or give integers or constants, and those that are not."""


def last_bit_differs(name, at=-1):
    """The digests of a party whose function differs in the last bit at one argument."""

    def changed(x, do=FUNCTIONS[name]):
        values = do(x).copy()
        values[at] = np.nextafter(values[at], np.inf)
        return values

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arithmetic, "FUNCTIONS", {**FUNCTIONS, name: changed})
        return digests.__wrapped__()


def uses():
    """Functions of `math`, NumPy and SciPy that the trainer's modules use, and that may differ."""
    for place in PLACES:
        for path in (ROOT / place).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module == "scipy.special":
                    yield from ((f"scipy.special.{one.name}", path) for one in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module == "scipy.stats":
                    yield from ((f"scipy.stats.{one.name}", path) for one in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module == "math":
                    yield f"math.{node.names[0].name}", path
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    module = MODULES.get(node.value.id)
                    if module == "numpy" and node.attr in INEXACT_OF_NUMPY.split():
                        yield f"numpy.{node.attr}", path
                    elif module == "math" and node.attr not in EXACT_OF_MATH.split():
                        yield f"math.{node.attr}", path
                    elif module == "scipy.stats.chi2":
                        assert node.attr == "ppf", path


def test_every_function_that_trainers_use_has_a_digest():
    found = dict(uses())
    assert {"numpy.exp", "math.exp", "scipy.special.erfcx"} <= set(found)
    missing = {name: path.name for name, path in found.items() if name not in FUNCTIONS}
    assert not missing


def test_digests_follow_from_the_functions_alone():
    assert digests() == digests() == digests.__wrapped__()
    assert list(digests()) == list(FUNCTIONS)
    x = arguments()
    assert len(np.unique(x)) == len(x)
    assert x.min() > 0
    assert x.max() < 1
    assert all(np.isfinite(function(x)).all() for function in FUNCTIONS.values())
    check_digests(json.loads(json.dumps(digests())), "party 'shop'")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_last_bit_of_one_value_is_found_and_named(name):
    changed = last_bit_differs(name)
    assert {one for one in changed if changed[one] != digests()[one]} == {name}
    with pytest.raises(InvalidArgumentError, match=f"party 'shop'.*{name} differently"):
        check_digests(changed, "party 'shop'")


@pytest.mark.parametrize("theirs", [None, {}, [], "exp", {"math.exp": "0" * 32}])
def test_other_tables_are_refused(theirs):
    with pytest.raises(InvalidArgumentError, match="digest for each"):
        check_digests(theirs, "party 'shop'")


def with_arithmetic(monkeypatch, changed):
    """Let the party with the labels have other digests."""

    def task_of(*args, do=train.__globals__["task_of"]):
        return replace(do(*args), arithmetic=changed)

    monkeypatch.setitem(train.__globals__, "task_of", task_of)


def test_parties_that_round_differently_do_not_begin(tmp_path, monkeypatch):
    party = bank(folder=tmp_path / "bank", budget=BUDGET)
    with_arithmetic(monkeypatch, last_bit_differs("numpy.exp"))
    with pytest.raises(PartyRefusedError, match=r"'labels'.*numpy\.exp differ"):
        trained(party, checkpoint=tmp_path / "labels")
    party.close()
    assert read_ledger(tmp_path / "bank").rows == []


def test_a_run_is_not_taken_up_on_a_processor_of_another_kind(tmp_path, monkeypatch):
    def killed(self, asked):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ReplicaAnswers, "opened", killed)
        with pytest.raises(KeyboardInterrupt):
            trained(bank(), checkpoint=tmp_path)
    with_arithmetic(monkeypatch, last_bit_differs("math.log"))
    with pytest.raises(FederatedCheckpointError, match="round otherwise"):
        trained(bank(), checkpoint=tmp_path)


@pytest.mark.parametrize("name", ["LightGBM", "veilboost"])
def test_parties_of_other_versions_do_not_begin(tmp_path, monkeypatch, name):
    """Before, noise was released, and the models differed at the end: their texts have all parameters."""
    party = bank(folder=tmp_path / "bank", budget=BUDGET)

    def task_of(*args, do=train.__globals__["task_of"]):
        return replace(do(*args), versions={**versions(), name: "3.9"})

    monkeypatch.setitem(train.__globals__, "task_of", task_of)
    with pytest.raises(PartyRefusedError, match=f"'labels'.*{name} 3.9 and {versions()[name]}"):
        trained(party, checkpoint=tmp_path / "labels")
    party.close()
    assert read_ledger(tmp_path / "bank").rows == []
    assert list((tmp_path / "bank").rglob("*.txt")) == []


def test_a_run_is_not_taken_up_by_another_version(tmp_path, monkeypatch):
    def killed(self, asked):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ReplicaAnswers, "opened", killed)
        with pytest.raises(KeyboardInterrupt):
            trained(bank(), checkpoint=tmp_path)
    monkeypatch.setattr(lightgbm, "__version__", "9.9")
    with pytest.raises(FederatedCheckpointError, match="by another version"):
        trained(bank(), checkpoint=tmp_path)


def test_versions_are_those_of_the_writers_of_a_models_text():
    assert set(versions()) == {"LightGBM", "veilboost"}
    assert versions()["LightGBM"] == lightgbm.__version__
    check_versions(json.loads(json.dumps(versions())), "party 'shop'")


@pytest.mark.parametrize("theirs", [None, {}, [], "4.7", {"LightGBM": "4.7"}, {**versions(), "x": "1"}])
def test_versions_of_other_programs_are_refused(theirs):
    with pytest.raises(InvalidArgumentError, match="versions of party 'shop'"):
        check_versions(theirs, "party 'shop'")


@pytest.mark.parametrize("version", [None, 4.7, ["4.7"], "4.7\n" * 999])
def test_a_version_of_another_kind_is_quoted(version):
    with pytest.raises(InvalidArgumentError, match="this one have LightGBM") as refused:
        check_versions({**versions(), "LightGBM": version}, "party 'shop'")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("left_out", ["arithmetic", "versions"])
def test_settings_without_digests_are_refused(left_out):
    """Those of this process are not taken for the other party's."""
    task = ColumnTask(
        "shop",
        {},
        {"epsilon": 1.0, "delta": 1e-5, "depth": "auto", "gradient_clip": "auto"},
        4,
        2,
        9,
        None,
        {},
    )
    values = json.loads(task.to_json())
    assert ColumnTask.from_json(json.dumps(values)).arithmetic == digests()
    del values[left_out]
    with pytest.raises(InvalidArgumentError, match="of this version"):
        ColumnTask.from_json(json.dumps(values))
