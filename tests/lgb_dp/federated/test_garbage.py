"""Altered messages, at every step of a run: a party answers with a refusal, or as if nothing had happened."""

import numpy as np
import pytest

from disturbed import Between
from federated_training import charges, party, train
from gbdt_parties.errors import PartyError
from gbdt_parties.messages import Refusal, read


class Altering(Between):
    """Alters one request of a run, after its header."""

    def __init__(self, inner, number, seed):
        super().__init__(inner)
        self.number, self.random = number, np.random.default_rng(seed)

    def handle(self, request):
        self.calls += 1
        if self.calls != self.number:
            return self.party.handle(request)
        altered = bytearray(request)
        for _ in range(int(self.random.integers(1, 4))):
            at = int(self.random.integers(32, len(altered))) if len(altered) > 32 else 0
            altered[at] = int(self.random.integers(256))
        if self.random.random() < 0.3:
            del altered[int(self.random.integers(len(altered))) :]
        return self.party.handle(bytes(altered))


def test_altered_requests_are_refused_or_do_not_matter(caplog):
    outcomes = set()
    for seed in range(40):
        liar = Altering(party(0), 1 + seed % 8, seed)
        try:
            train([liar, party(1)], 2, structure="random")
            outcomes.add("finished")
        except PartyError as error:
            outcomes.add(type(error).__name__)
        assert len(charges(liar.party)) <= 4 if liar.party.ledger else True
    assert len(outcomes) > 1
    assert "a request failed" not in caplog.text


@pytest.mark.parametrize("request_bytes", [b"", b"VBMS", bytes(100), b"\xff" * 64])
def test_bytes_that_are_no_message(request_bytes):
    assert isinstance(read(party(0).handle(request_bytes)).message, Refusal)
