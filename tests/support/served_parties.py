"""Parties behind a server of this machine."""

from deployment import tls
from gbdt_parties import messages
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.transport.server import NOBODY


class Echo:
    def handle(self, request):
        return bytes(request)


def with_certificate_of(which, days=365):
    """What knows the bank's authority, and shows a certificate of any."""
    own = tls("acme", which, days)
    return TLS(tls("acme").authority, own.certificate, own.key)


class Local:
    """A party that calls a service without a network."""

    def __init__(self, service, caller="acme", row_sets=(), name="bank"):
        self.service, self.row_sets, self.name = service, tuple(row_sets), name
        self.caller = Identity(caller, "", NOBODY.expires)

    def handle(self, request):
        return self.service.handle(self.caller, self.row_sets, request)

    def ask(self, *requests, session=b"s" * 16):
        answer = None
        for sequence, request in enumerate(requests):
            answer = messages.read(self.handle(messages.write(session, sequence, request))).message
        return answer
