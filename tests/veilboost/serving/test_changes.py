"""A running server takes up certificates and allow-lists, and loses no run by it."""

import logging
import shutil
from contextlib import ExitStack, closing, contextmanager

import numpy as np
import pytest

import xgb_fed
from deployment import HandlerService, authority, certificates, eventually
from gbdt_parties.errors import AuthenticationError
from gbdt_parties.identity.certificates import TLS, Identity, renew_certificate
from gbdt_parties.secure_sum.roster import SignedEnd
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from served_parties import Echo
from veilboost import command_line as cli
from veilboost.plans.plan import read_served
from veilboost.serving.changes import Changes
from xgb_fed import ExactTerms, HorizontalParty
from xgb_fed.horizontal.common.rows import HorizontalLimits
from xgb_fed.horizontal.service import HorizontalService

FILE = 'method = "{}"\ndata = "x.csv"\ntls = "bank"\nallow = {}\n{}'


@pytest.fixture
def folder(tmp_path):
    for name in ("acme", "bank", "shop"):
        shutil.copytree(certificates(name, days=20), tmp_path / name)
    write(tmp_path, ["acme"])
    return tmp_path


def write(folder, allow, method="vertical", more=""):
    (folder / "bank.toml").write_text(FILE.format(method, allow, more))


@contextmanager
def served(folder, service, trust=None):
    settings = read_served(folder / "bank.toml")[1]
    server = Server(service, "127.0.0.1:0", TLS.from_directory(folder / "bank"), settings.allow)
    try:
        yield server, Changes(server, trust, settings, str(folder / "bank.toml"))
    finally:
        server.stop()


@contextmanager
def calling(folder, server, name="acme", **how):
    party = RemoteParty(f"127.0.0.1:{server.port}", folder / name, "bank", 60.0, **how)
    try:
        yield party
    finally:
        party.close()


class Interrupted:
    """Passes messages on, and does something before one of them."""

    def __init__(self, party, at, do):
        self.name, self._party, self._at, self._do, self.n = party.name, party, at, do, 0

    def handle(self, request):
        self.n += 1
        if self.n == self._at:
            self._do()
        return self._party.handle(request)


@pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")
def test_a_run_goes_on_while_a_certificate_is_renewed_and_a_caller_added(folder):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 4)), random.integers(0, 2, 200)

    def trained(party):
        params = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 16}
        data = xgb_fed.ActiveData(X[:, :2], y)
        return xgb_fed.train(params, data, [party], 3, cipher=xgb_fed.Plain(), verbose_eval=False)

    here = xgb_fed.LocalParty(X[:, 2:], "bank")
    with served(folder, HandlerService(here)) as (server, changes), calling(folder, server) as party:
        new = []

        def change():
            new.append(renew_certificate(folder / "bank", authority("ca"), "bank")[0].fingerprint)
            write(folder, ["acme", "shop"])
            changes.look()

        model = trained(Interrupted(party, 8, change))
        assert model.predict(X[:, :2], [here]).tolist() == trained(here).predict(X[:, :2], [here]).tolist()
        with calling(folder, server, "shop", allowed=[f"sha256:{new[0]}"]) as other:
            assert other.handle(bytes(64))


def test_a_removed_name_ends_at_its_next_request(folder, caplog):
    caplog.set_level(logging.INFO)
    with served(folder, HandlerService(Echo())) as (server, changes), calling(folder, server) as party:
        assert party.handle(b"before") == b"before"
        eventually(lambda: server.waiting)
        write(folder, [])
        changes.look()
        eventually(lambda: not server.waiting)
        with pytest.raises(AuthenticationError, match="'acme'"):
            party.handle(b"after")
        write(folder, ["acme"], more="max_bin = 8\n")
        changes.look()
        assert party.handle(b"again") == b"again"
    assert "other entries of" in caplog.text


def test_more_callers_than_at_the_start_are_served_at_the_same_time(folder):
    with served(folder, HandlerService(Echo())) as (server, changes):
        write(folder, ["shop", "acme", "bank"])
        changes.look()
        with calling(folder, server) as acme, calling(folder, server, "shop") as shop:
            for party in (acme, shop, acme, shop):
                assert party.handle(b"x") == b"x"


@pytest.mark.parametrize("fault", ["party.pem", "bank.toml"])
def test_a_fault_is_said_once_and_nothing_is_taken_up(folder, fault, caplog):
    path = folder / "bank" / fault if fault == "party.pem" else folder / fault
    with served(folder, HandlerService(Echo())) as (server, changes), calling(folder, server) as party:
        before = server.tls
        path.write_text("-----BEGIN")
        for _ in range(3):
            changes.look()
        assert sum("not taken up" in one.getMessage() for one in caplog.records) == 1
        assert server.tls is before
        assert party.handle(b"x") == b"x"


def test_rosters_have_the_renewed_certificate_and_list(folder):
    own = Credentials.of(TLS.from_directory(folder / "bank"))
    pin = "key-sha256:" + Identity.of(own.certificates).key
    trust, more = (own, AllowList([])), "budget = [1.0, 1e-5]\ndeclared = 'd.toml'\nparty = "
    write(folder, ["acme"], "private", f"{more}[]\n")
    with served(folder, HandlerService(Echo()), trust) as (_, changes):
        new = renew_certificate(folder / "bank", authority("ca"), "bank")[0]
        more_authorities = b"".join((authority(which) / "ca.pem").read_bytes() for which in ("ca", "other"))
        (folder / "bank/ca.pem").write_bytes(more_authorities)
        write(folder, ["acme"], "private", f"{more}['{pin}']\n")
        changes.look()
    assert Identity.of(own.certificates) == new
    trust[1].check_holder(new)
    assert trust[1].authority == more_authorities


def test_days_are_counted_once_a_day(folder, caplog):
    with served(folder, HandlerService(Echo())) as (_, changes):
        changes.look()
        changes.look()
    lines = [one.getMessage() for one in caplog.records if "ends in" in one.getMessage()]
    assert len(lines) == 1
    assert "the certificate ends in 19 days: renew it: veilboost certs bank --renew" in lines[0]


def test_a_server_does_not_start_with_an_expired_certificate(folder, capsys):
    renew_certificate(folder / "bank", authority("ca"), "bank", days=-1)
    assert cli.main(["serve", str(folder / "bank.toml")]) == cli.REFUSED
    assert "certificate of 'bank' expired at 20" in (shown := capsys.readouterr().err)
    assert "--renew" in shown


@pytest.mark.filterwarnings("ignore::xgb_fed.FewPartiesWarning")
def test_a_signed_run_goes_on_over_renewals_and_a_restart_with_the_renewed_certificate(folder):
    """Of exact training: rosters are signed by certificates, and pins of keys hold for the renewed ones."""
    random = np.random.default_rng(0)
    rows = {name: (random.normal(size=(60, 3)), random.integers(0, 2, 60)) for name in ("bank", "shop")}
    pins = {
        name: f"key-sha256:{Identity.of((folder / name / 'party.pem').read_bytes()).key}" for name in rows
    }
    for name, other in (("bank", "shop"), ("shop", "bank")):
        more = (
            f"label = 'y'\ncategorical_labels = true\nparty = ['{pins[other]}']\nmodels = '{name}-models'\n"
        )
        text = FILE.format("exact", ["acme"], more).replace('"bank"', f'"{name}"')
        (folder / f"{name}.toml").write_text(text)

    @contextmanager
    def party(name, port=0):
        terms = ExactTerms(
            tls=folder / name, allowed=read_served(folder / f"{name}.toml")[1].party, min_rows_per_node=2
        )
        own = HorizontalParty(
            *rows[name], name, categorical_labels=True, directory=folder / f"{name}-models", exact=terms
        )
        with closing(HorizontalService(own, folder / f"{name}-models", HorizontalLimits())) as service:
            settings = read_served(folder / f"{name}.toml")[1]
            server = Server(service, f"127.0.0.1:{port}", TLS.from_directory(folder / name), ["acme"])
            try:
                yield server, Changes(server, service.trust, settings, str(folder / f"{name}.toml"))
            finally:
                server.stop()

    with ExitStack() as stack:
        (bank, changes), shop = stack.enter_context(party("bank")), ExitStack()
        stack.push(shop)
        port = shop.enter_context(party("shop"))[0].port

        def change():
            for name in rows:
                renew_certificate(folder / name, authority("ca"), name)
            changes.look()
            shop.close()
            shop.enter_context(party("shop", port))

        remotes = [
            stack.enter_context(closing(RemoteParty(f"127.0.0.1:{one}", folder / "acme", name, 60.0)))
            for name, one in (("bank", bank.port), ("shop", port))
        ]
        params = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 8}
        members = [Interrupted(remotes[0], 12, change), remotes[1]]
        how = {"min_rows_per_node": 2, "patience": 60.0, "verbose_eval": False}
        model = xgb_fed.train_exact(params, members, 4, **how)
        assert members[0].n > 12
        assert model.booster.num_boosted_rounds() == 4
        # The next one signs with the renewed certificates.
        signed = xgb_fed.train_exact(params, remotes, 1, **how).signatures
        renewed = [(folder / name / "party.pem").read_bytes() for name in rows]
        assert {one.certificates for one in SignedEnd.from_json(signed).signers} == set(renewed)
