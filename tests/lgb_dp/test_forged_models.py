"""A damaged or forged model file is read as a valid one, or refused by an error of ours or of LightGBM's.

LightGBM reads the trees, so that they are damaged only where the text is read by us.
"""

import json
import subprocess
import sys
import time

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import lgb_dp
from gbdt_commons.errors import VeilboostError
from gbdt_hosts.lightgbm import header_digest
from gbdt_hosts.lightgbm.text import COLUMNS, GUARANTEE, parameter_lines
from mutations import mutated_bytes, mutated_json
from small_training import binary_data

X, Y = binary_data(60)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(
    c=np.arange(60) % 3, d=np.where(Y > 0, "u", "v"), t=pd.Timestamp("2020-01-01")
)
BOUNDS = {"a": (-3, 3), "b": (-3, 3), "t": (pd.Timestamp("2019-01-01"), pd.Timestamp("2021-01-01"))}
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2}
COUNTS = [40, pytest.param(2000, marks=pytest.mark.slow)]
NAMED = (VeilboostError, lgb.basic.LightGBMError)

pytestmark = pytest.mark.filterwarnings("ignore")


def trained(**kwargs):
    data = lgb_dp.Dataset(FRAME, Y, bounds=BOUNDS, categories={"c": [0, 1, 2], "d": ["u", "v"]})
    return lgb.train(QUIET, data, 1, callbacks=[lgb_dp.NewtonBoost(1.0, 1e-6)], **kwargs)


@pytest.fixture(scope="module")
def text():
    return trained().model_to_string()


def with_line(text, name, value):
    return text.replace(f"[{name}: ]: {parameter_lines(text)[name]}", f"[{name}: ]: {value}")


def with_digest(text):
    """The text with the digest of the header that it has now, as somebody who forges would write it."""
    guarantee = json.loads(parameter_lines(text)[GUARANTEE])
    try:
        guarantee["header"] = header_digest(text)
    except (ValueError, TypeError, RecursionError):
        return text
    return with_line(text, GUARANTEE, json.dumps(guarantee))


def refused_by_name(attempt):
    try:
        attempt()
    except NAMED:
        return True
    return False


USES = {
    "report": lambda booster: f"{booster.privacy}{booster.privacy.to_dict()}",
    "notebook": lambda booster: booster._repr_html_(),
    "statement": lambda booster: (
        lgb_dp.statement(booster)._repr_html_() + lgb_dp.statement(booster).to_json()
    ),
    "compose": lambda booster: lgb_dp.compose(booster.privacy, booster.privacy),
    "fold": lambda booster: lgb_dp.fold(booster, 0.1),
    "predict": lambda booster: booster.predict(FRAME),
    "continue": lambda booster: trained(init_model=booster),
}


@pytest.mark.parametrize("line", [GUARANTEE, COLUMNS])
@pytest.mark.parametrize("count", COUNTS)
def test_forged_lines_are_read_or_refused_by_name(text, line, count):
    rng, refused = np.random.default_rng(1), dict.fromkeys(USES, 0)
    for forged in mutated_json(json.loads(parameter_lines(text)[line]), rng, count):
        model = with_line(text, line, forged)
        model = with_digest(model) if line == COLUMNS else model
        refused_by_name(lambda model=model: lgb_dp.privacy_of(model))
        booster = lgb_dp.DPBooster(model_str=model)
        for name, use in USES.items():
            refused[name] += refused_by_name(lambda use=use, booster=booster: use(booster))
    assert refused["predict" if line == COLUMNS else "report"] > count / 10


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_files_of_models_carry_no_guarantee_or_the_same(text, tmp_path, count):
    path, rng, same = tmp_path / "model.txt", np.random.default_rng(2), lgb_dp.privacy_of(text)
    damaged = 0
    for content in mutated_bytes(text.encode(), rng, 5 * count):
        path.write_bytes(content)
        try:
            report = lgb_dp.privacy_of(path)
        except (lgb_dp.NoGuaranteeError, lgb_dp.AlteredModelError):
            damaged += 1
        else:
            line = parameter_lines(content.decode())[GUARANTEE]
            assert report == same or line != parameter_lines(text)[GUARANTEE]
    assert damaged > count


def with_leaf_line(text, change):
    """The text whose first line of leaf values, and one of values far off, are as `change` puts them."""
    real = next(line for line in text.split("\n") if line.startswith("leaf_value="))
    far = "leaf_value=" + " ".join(["9"] * len(real.split()))
    return text.replace(real, change(real, far), 1)


SAMPLED = [
    [[0.0, 0.5, 10]],
    [[1e-300, 0.5, 10]],
    [[1e300, 0.5, 10]],
    [[0.1, 0.5, 10**6]],
    [[10.0, 0.5, 10]],
    [[0.1, 1e-300, 10**6]],
    [[0.1 + i * 1e-3, 0.5, 1000] for i in range(65)],
]


@pytest.mark.parametrize("sampled", SAMPLED)
def test_forged_costs_of_samples_are_refused_or_composed_at_once(text, sampled):
    guarantee = json.loads(parameter_lines(text)[GUARANTEE])
    guarantee["cost"]["sampled"] = sampled
    started = time.process_time()
    try:
        report = lgb_dp.privacy_of(with_line(text, GUARANTEE, json.dumps(guarantee)))
    except lgb_dp.NoGuaranteeError:
        return
    assert str(report)
    assert report.to_dict()
    both = lgb_dp.compose(report, report)
    assert not both.private or both.epsilon >= report.epsilon
    assert time.process_time() - started < 15


@pytest.mark.parametrize("delta", [1, 5, float("inf"), float("nan"), -1])
@pytest.mark.parametrize("of_cost", [False, True])
def test_a_delta_that_bounds_nothing_is_no_guarantee(text, delta, of_cost):
    guarantee = json.loads(parameter_lines(text)[GUARANTEE])
    (guarantee["cost"] if of_cost else guarantee)["delta"] = delta
    with pytest.raises(lgb_dp.NoGuaranteeError):
        lgb_dp.privacy_of(with_line(text, GUARANTEE, json.dumps(guarantee)))


def test_a_report_of_a_delta_that_bounds_nothing_is_not_private():
    report = lgb_dp.PrivacyReport(1.0, 1.0, True, (), (), ())
    assert not report.private
    assert "delta" in report.reasons[0]


SEPARATORS = ["\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r", "\n", "\r\n"]
HIDDEN = {
    **{f"after {sep!r}": lambda real, far, sep=sep: f"{far}\nzz={sep}{real}" for sep in SEPARATORS},
    **{f"in one line by {sep!r}": lambda real, far, sep=sep: f"{far}{sep}{real}" for sep in SEPARATORS},
    "behind an empty line": lambda real, far: f"{far}\n\n{real}",
    "behind a line without a name": lambda real, far: f"{far}\nzz\n{real}",
    "beyond the lines that are read": lambda real, far: "\n".join(
        [far, *(f"z{chr(97 + i)}=" for i in range(22)), real]
    ),
    "with an underscore": lambda real, far: real.replace(".", "_0.", 1),
    "twice": lambda real, far: f"{real}\n{real}",
}


@pytest.mark.parametrize("hidden", HIDDEN)
def test_no_tree_is_private_that_lightgbm_reads_otherwise(text, hidden):
    forged = with_leaf_line(text, HIDDEN[hidden])
    assert forged != text
    with pytest.raises(lgb_dp.AlteredModelError):
        lgb_dp.privacy_of(forged)


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_models_whose_lines_end_as_lightgbm_knows_them_stay_private(text, tmp_path, end):
    ended = text.replace("\n", end)
    assert lgb_dp.privacy_of(ended if "\n" in ended else f"{ended}\n") == lgb_dp.privacy_of(text)
    path = tmp_path / "model.txt"
    path.write_bytes(ended.encode())
    data = X[:, [0, 1, 2, 2, 0]]
    expected = lgb_dp.DPBooster(model_str=text).predict(data)
    for booster in (lgb_dp.DPBooster(model_str=ended), lgb_dp.DPBooster(model_file=path)):
        assert booster.privacy == lgb_dp.privacy_of(text)
        np.testing.assert_array_equal(booster.predict(data), expected)


@pytest.mark.parametrize("source", [pytest.param("model_str", marks=pytest.mark.slow), "model_file"])
def test_a_leaf_line_that_is_longer_than_it_was_does_not_end_the_process(text, tmp_path, source):
    """In a process of its own: LightGBM's abort would end the tests."""
    path = tmp_path / "model.txt"
    path.write_text(text.replace("leaf_value=", "leaf_value=1", 1))
    given = "model_file=path" if source == "model_file" else "model_str=open(path).read()"
    code = f"import sys, lgb_dp; path = sys.argv[1]; booster = lgb_dp.DPBooster({given}); booster.privacy"
    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "AlteredModelError" in run.stderr


def test_a_path_that_cannot_be_is_refused_by_name():
    with pytest.raises(lgb_dp.ArgumentTypeError):
        lgb_dp.privacy_of("model\0.txt")


def test_columns_that_are_not_as_many_as_the_features_are_refused(text):
    columns = json.loads(parameter_lines(text)[COLUMNS])
    columns["names"] = [*columns["names"], "more"]
    booster = lgb_dp.DPBooster(model_str=with_digest(with_line(text, COLUMNS, json.dumps(columns))))
    with pytest.raises(lgb_dp.AlteredModelError, match=r"names 6.*5 features"):
        booster.predict(FRAME)
