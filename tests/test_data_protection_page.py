"""The figures and the length of the page for the data protection officer."""

import math
import re
from pathlib import Path

import pytest
from scipy.stats import norm

from lgb_dp.accounting.gaussian import gaussian_mu

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


def test_all_rows_of_the_table_are_read():
    assert len(ROWS) == 6
