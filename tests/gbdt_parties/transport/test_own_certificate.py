"""A party's own certificate is looked at before it is shown."""

import time

import pytest

from deployment import HandlerService, serving, tls
from gbdt_parties.errors import AuthenticationError
from gbdt_parties.identity.certificates import out_of_date
from gbdt_parties.transport import remote as remote_module
from gbdt_parties.transport.remote import RemoteParty
from served_parties import Echo, with_certificate_of


def test_an_expired_certificate_is_named_before_a_connection_is_made(monkeypatch):
    monkeypatch.setattr(remote_module.ServerConnection, "call", lambda self: pytest.fail("connected"))
    party = RemoteParty("127.0.0.1:9", tls("acme", days=-1), "bank", 5.0)
    with pytest.raises(AuthenticationError, match=r"this side's certificate expired at \d{4}-.*'bank'"):
        party.handle(b"x")
    party.close()


@pytest.mark.parametrize(("which", "days"), [("other", 365), ("ca", -1)], ids=["authority", "clock"])
def test_a_refused_certificate_is_named_at_once(which, days, monkeypatch):
    """gRPC says "Socket closed", as of a server that was killed, which patience waits for."""
    # As if this side's clock were behind.
    monkeypatch.setattr(remote_module, "out_of_date", lambda certificates: "")
    monkeypatch.setattr(remote_module, "SECONDS", 60.0)
    service = HandlerService(Echo())
    begun = time.monotonic()
    with serving(service) as server:
        own = with_certificate_of(which, days)
        party = RemoteParty(f"127.0.0.1:{server.port}", own, "bank", 60.0)
        with pytest.raises(AuthenticationError, match=r"'bank'.*connections"):
            party.handle(b"x")
        party.close()
    assert time.monotonic() - begun < 30
    assert not service.exchanges


def test_only_the_own_certificate_must_be_in_date():
    """A file may hold further ones, of which this side needs none."""
    own, expired = tls("acme").certificate, tls("acme", days=-1).certificate
    assert not out_of_date(own + expired)
    assert "expired at" in out_of_date(expired + own)
