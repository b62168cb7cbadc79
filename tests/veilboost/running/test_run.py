"""The parties that a run of any kind connects to."""

from contextlib import ExitStack
from dataclasses import fields
from types import SimpleNamespace

import pytest

from deployment import HandlerService, certificates, serving, tls
from gbdt_parties.errors import AuthenticationError
from gbdt_parties.identity.certificates import Identity
from served_parties import Echo
from veilboost.plans.plan import METHODS
from veilboost.plans.sections import PartyAddress, Plan
from veilboost.running.run import connect

pytest.importorskip("grpc")


def test_plans_of_every_kind_name_the_certificates_of_their_parties():
    for method, kind in METHODS.items():
        assert "allowed" in {one.name for one in fields(kind.data)}, method


@pytest.mark.parametrize("has_list", [True, False])
def test_a_server_that_is_not_allowed_is_sent_nothing_whatever_the_command(tmp_path, has_list):
    """Alignment, training, prediction, explanation and export all connect so."""
    known = f"sha256:{Identity.of(tls('bank').certificate).fingerprint}"
    service = HandlerService(Echo())
    with serving(service, days=300) as server, ExitStack() as stack:
        address = PartyAddress(name="bank", address=f"127.0.0.1:{server.port}")
        data = SimpleNamespace(allowed=[known] if has_list else [])
        training = SimpleNamespace(timeout=30.0)
        (party,) = connect(Plan("", tmp_path, certificates("acme"), [address], {}, data, training), stack)
        if not has_list:
            assert party.handle(b"x") == b"x"
            return
        for one in (party, party.with_rows(bytes(32))):
            with pytest.raises(AuthenticationError, match="party's allow-list"):
                one.handle(b"secret")
    assert not service.exchanges
