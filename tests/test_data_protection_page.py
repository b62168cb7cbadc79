"""The figures and the length of the page for the data protection officer."""

import math
import re
from pathlib import Path

import pytest
from scipy.stats import norm

import lgb_dp
from gbdt_commons.documentation import OFFICERS_PAGE
from gbdt_parties.traffic import Traffic
from lgb_dp.accounting.gaussian import gaussian_mu
from veilboost import command_line as cli

PAGE = (Path(__file__).parent.parent / "docs" / "data-protection.md").read_text()
DELTA = 1e-6
ROWS = re.findall(r"^\| ([0-9.]+) \| ([0-9.]+)% \| ([0-9.]+)% \|$", PAGE, re.MULTILINE)


def test_the_page_is_short():
    assert len(PAGE.split()) <= 1200


@pytest.mark.parametrize(("epsilon", "of_any", "of_gaussian"), ROWS)
def test_attackers_guess_right_at_most_that_often(epsilon, of_any, of_gaussian):
    # The most accurate test of an (epsilon, delta) mechanism errs where both error rates are
    # (1 - delta) / (1 + e^epsilon) (Kairouz, Oh and Viswanath 2015); that of a Gaussian one at Phi(-mu / 2).
    e = math.exp(float(epsilon))
    assert float(of_any) == pytest.approx(100 * (e + DELTA) / (1 + e), abs=0.06)
    assert float(of_gaussian) == pytest.approx(
        100 * norm.cdf(gaussian_mu(float(epsilon), DELTA) / 2), abs=0.06
    )


def test_reports_name_the_page_by_its_title_and_its_path(tmp_path, capsys):
    title, path = re.match(r"(.*): (docs/\S+) of ", OFFICERS_PAGE).groups()
    page = (Path(__file__).parent.parent / path).read_text()
    assert page.startswith(f"# {title.capitalize()}\n")
    for report in (lgb_dp.PrivacyReport(1.0, 1e-6, True, (), (), ()), Traffic()):
        assert str(report).splitlines()[-1] == OFFICERS_PAGE
        assert path in report._repr_html_()
    (tmp_path / "record.jsonl").write_text("")
    assert cli.main(["inspect", str(tmp_path / "record.jsonl")]) == 0
    assert OFFICERS_PAGE in capsys.readouterr().out


def test_all_rows_of_the_table_are_read():
    assert len(ROWS) == 6
