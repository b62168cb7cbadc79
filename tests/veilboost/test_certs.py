"""The command ``certs``: what it refuses to lose, and what it says about a renewed certificate."""

import re

import pytest
from cryptography import x509

from veilboost import command_line as cli


@pytest.fixture(autouse=True)
def bank(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["certs", "bank", "--host", "bank.example"]) == 0
    capsys.readouterr()
    return tmp_path / "certs/bank"


def test_a_key_is_not_overwritten(bank, capsys):
    before = {path.name: path.read_bytes() for path in bank.iterdir()}
    assert cli.main(["certs", "bank"]) == cli.WRONG_USE
    assert "party.key exists" in (shown := capsys.readouterr().err)
    assert "--renew" in shown
    assert {path.name: path.read_bytes() for path in bank.iterdir()} == before


def test_a_renewal_says_who_has_to_know(bank, capsys):
    key = (bank / "party.key").read_bytes()
    assert cli.main(["certs", "bank", "--renew", "--days", "9"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"former certificate: certs/bank/party\.pem\.old-[0-9a-f]{8}\n", shown)
    assert re.search(
        r"or as key-sha256:[0-9a-f]{64}: nothing to do\n.*add sha256:[0-9a-f]{64} first\n", shown
    )
    assert (bank / "party.key").read_bytes() == key


def test_no_two_authorities_have_one_name(bank, tmp_path):
    """Where a party trusts both, TLS would take the first one for the signer of any certificate."""
    assert cli.main(["certs", "bank", "--authority", "certs/next", "--out", "certs/bank-2"]) == 0
    both = [
        x509.load_pem_x509_certificate((one / "ca.pem").read_bytes())
        for one in (bank, tmp_path / "certs/bank-2")
    ]
    assert both[0].subject != both[1].subject


@pytest.mark.parametrize("days", ["0", "-3"])
@pytest.mark.parametrize("more", [[], ["--renew"]])
def test_a_certificate_lasts_a_day_at_least(bank, days, more, capsys):
    before = (bank / "party.pem").read_bytes()
    assert cli.main(["certs", "bank", f"--days={days}", *more]) == cli.WRONG_USE
    assert f"--days={days} must be at least 1" in capsys.readouterr().err
    assert (bank / "party.pem").read_bytes() == before
