"""Parties behind a server of this machine."""

from datetime import datetime, timezone

from deployment import tls
from gbdt_parties.identity.certificates import TLS, Identity


class Echo:
    def handle(self, request):
        return bytes(request)


def with_certificate_of(which, days=365):
    """What knows the bank's authority, and shows a certificate of any."""
    own = tls("acme", which, days)
    return TLS(tls("acme").authority, own.certificate, own.key)


class Served:
    """The service as a party of one coordinator."""

    def __init__(self, service, name, caller="acme"):
        self.service, self.name = service, name
        self.caller = Identity(caller, "", datetime.max.replace(tzinfo=timezone.utc))

    def handle(self, request):
        return self.service.handle(self.caller, (), request)
