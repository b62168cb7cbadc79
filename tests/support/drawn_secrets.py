"""Secrets that parties draw for their runs, and a thief that looks for them in every byte of a folder."""

import base64
from pathlib import Path

from gbdt_parties.secure_sum.roster import Introduction
from gbdt_parties.two_party.session import Draws


class DrawnSecrets:
    """Keys and seeds of sessions by the party's name, and nonces of draws, from its making on."""

    def __init__(self, monkeypatch):
        self.of = {}
        make, begin = Introduction.of, Draws.__init__

        def introduced(name, credentials, keys):
            secrets = (
                keys.exchange.private_bytes_raw(),
                keys.signing.private_bytes_raw(),
                keys.seed,
                keys.kem.private_bytes_raw(),
            )
            self.of.setdefault(name, []).extend(secrets)
            return make(name, credentials, keys)

        def drawn(draws, *args):
            begin(draws, *args)
            self.of.setdefault("nonces", []).append(draws.nonce)

        monkeypatch.setattr(Introduction, "of", introduced)
        monkeypatch.setattr(Draws, "__init__", drawn)

    def found_in(self, folder, *names):
        """Those of the named parties, or of all, that are in some file of a folder."""
        wanted = [secret for name in names or self.of for secret in self.of.get(name, ())]
        return found_in(folder, wanted)


def spellings(secret):
    """Ways in which files have bytes."""
    return secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret)


def found_in(folder, secrets):
    """Those of some secrets that are in a file of a folder, however they are written."""
    files = [path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()]
    assert files
    return [one for one in secrets if any(text in file for text in spellings(one) for file in files)]
