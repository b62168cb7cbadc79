"""Terms of a party for exact training, and what it brings."""

import pytest

from exact_training import X, Y, party
from xgb_fed import ExactTerms, InvalidArgumentError


def test_terms_of_a_party():
    assert (ExactTerms().min_rows_per_node, ExactTerms().max_samples) == (10, 10_000)
    ExactTerms(cuts=("grid", "exact", "given"), held_out=[None, (X, Y), [X, Y, Y]])
    for cuts in ("grid", ("grid", "own"), ("own",)):
        with pytest.raises(InvalidArgumentError, match="cuts="):
            ExactTerms(cuts=cuts)
    for sets in ((X,), (X, Y, Y, Y), X, "XY"):
        with pytest.raises(InvalidArgumentError, match=r"held_out\[1\] must be"):
            ExactTerms(held_out=[None, sets])
    for name, least in (("min_rows_per_node", 1), ("min_parties", 2), ("max_bin", 2), ("max_samples", 0)):
        ExactTerms(**{name: least})
        with pytest.raises(InvalidArgumentError, match=name):
            ExactTerms(**{name: least - 1})


def test_a_run_goes_on_with_the_held_out_rows_that_it_began_with():
    def digest(*held_out):
        return party(0, held_out=list(held_out)).exact_side.digest

    rows, others = (X + 10, Y), (X + 11, Y)
    found = [digest(), digest(None), digest(rows), digest(others), digest(rows, None), digest(None, rows)]
    assert len(set(found)) == len(found)
    assert digest(rows) == found[2]


def test_a_party_with_a_certificate_names_whom_it_adds_its_numbers_to(tmp_path):
    """Else it would add them to those of everybody whom the authority has certified."""
    with pytest.raises(InvalidArgumentError, match="allowed=None would accept"):
        ExactTerms(tls=tmp_path)
    ExactTerms(tls=tmp_path, allowed=["sha256:" + 64 * "0"])
