"""Parties behind a server of this machine."""

from deployment import tls
from gbdt_parties.identity.certificates import TLS


class Echo:
    def handle(self, request):
        return bytes(request)


def with_certificate_of(which, days=365):
    """What knows the bank's authority, and shows a certificate of any."""
    own = tls("acme", which, days)
    return TLS(tls("acme").authority, own.certificate, own.key)
