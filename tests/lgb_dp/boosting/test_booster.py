"""What notebooks show of a private model, and where a guarantee can be read from."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import lgb_dp
from gbdt_hosts.lightgbm import PrivateBooster
from lgb_dp.accounting.ledger import Ledger, Release
from small_training import binary_data, dataset, train

X, Y = binary_data()
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def booster():
    return train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, 1e-5))


def test_a_booster_shows_its_size_and_its_guarantee(booster):
    page = booster._repr_html_()
    assert f"DPBooster: {booster.num_trees()} trees, {X.shape[1]} features" in page
    assert "private: epsilon = 1" in page
    assert page.count("<tr>") == 1 + len(booster.privacy.ledger)
    assert booster.privacy._repr_html_() in page


def test_a_booster_without_a_guarantee_says_so():
    stock = lgb.train({"objective": "binary", "verbosity": -1}, lgb.Dataset(X, Y), 2)
    assert "no privacy guarantee" in lgb_dp.DPBooster(model_str=stock.model_to_string())._repr_html_()


def test_a_booster_in_training_shows_what_was_released_so_far():
    pages = []
    train(
        dataset(X, Y),
        lgb_dp.NewtonBoost(1.0, 1e-5),
        callbacks=[lambda env: pages.append(env.model._repr_html_())],
    )
    assert all("private: epsilon = 1" in page for page in pages)


def test_reports_and_ledgers_escape_what_they_show():
    ledger = Ledger()
    ledger.charge(Release(EVIL, EVIL, 0.5, 0, 0))
    report = lgb_dp.PrivacyReport(0.5, 0.0, False, (EVIL,), (EVIL,), tuple(ledger.table()))
    for page in (ledger._repr_html_(), report._repr_html_()):
        assert "<script>" not in page
        assert "&lt;script&gt;" in page
    assert report._repr_html_().count("&lt;script&gt;") == 4
    # The neighbouring relation follows from the unit: a report from elsewhere cannot bring a text of its own.
    with pytest.raises(ValueError, match="another neighbouring relation"):
        lgb_dp.PrivacyReport.from_dict({**report.to_dict(), "neighbouring": EVIL})


def test_a_guarantee_is_read_from_a_path_a_text_or_a_booster(booster, tmp_path):
    path = tmp_path / "model.txt"
    booster.save_model(path)
    for model in (path, str(path), path.read_text(), booster, lgb.Booster(model_file=path)):
        assert lgb_dp.privacy_of(model) == booster.privacy
    with pytest.raises(lgb_dp.ArgumentTypeError, match=r"model.*path"):
        lgb_dp.privacy_of(b"tree")
    with pytest.raises(lgb_dp.NoGuaranteeError):
        lgb_dp.privacy_of("tree\nversion=v4\n")
    with pytest.raises(FileNotFoundError):
        lgb_dp.privacy_of("model.txt")


@pytest.mark.parametrize("how", [{}, {"raw_score": True}, {"pred_leaf": True}, {"pred_contrib": True}])
def test_rows_of_a_table_are_predicted_in_parts_as_at_once(booster, how, monkeypatch):
    frame = pd.DataFrame(X, columns=booster.feature_name())
    expected = booster.predict(X, **how)
    for n_at_once in (len(X) + 1, len(X), len(X) // 3 + 1, 1 + len(X) // 2):
        monkeypatch.setattr("lgb_dp.boosting.booster.ROWS_AT_ONCE", n_at_once)
        assert np.array_equal(booster.predict(frame, **how), expected)


def test_a_table_is_predicted_without_a_wide_copy(booster, monkeypatch):
    predict, sizes = PrivateBooster.predict, []
    monkeypatch.setattr("lgb_dp.boosting.booster.ROWS_AT_ONCE", 100)
    monkeypatch.setattr(PrivateBooster, "predict", lambda s, X, *a: sizes.append(len(X)) or predict(s, X, *a))
    booster.predict(pd.DataFrame(np.resize(X, (250, X.shape[1])), columns=booster.feature_name()))
    assert sizes == [100, 100, 50]
