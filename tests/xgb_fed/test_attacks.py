"""What an attack on the ciphers found, each now a test."""

import numpy as np
import pytest

from xgb_fed import OkamotoUchiyama, Paillier, Plain
from xgb_fed.errors import PlaintextRangeError

SCHEMES = [Paillier(256, allow_weak_key=True), OkamotoUchiyama(256, allow_weak_key=True)]


@pytest.mark.parametrize("rows", [np.array([[-1]]), np.array([[1.7], [np.nan]])])
@pytest.mark.parametrize("scheme", [*SCHEMES, Plain()], ids=lambda s: type(s).__name__)
def test_rows_of_plaintext_words_must_be_words(scheme, rows):
    with pytest.raises(PlaintextRangeError, match="uint64"):
        scheme.generate().encrypt(rows)
