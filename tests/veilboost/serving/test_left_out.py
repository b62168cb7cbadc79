"""Rows that an `exclude` file names take part nowhere, in every kind of training."""

from contextlib import ExitStack, closing

import pytest

from deployment import certificates
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity.certificates import TLS
from veilboost.doctor import rows as doctor_rows
from veilboost.plans.plan import METHODS, module_of, read_plan, read_served
from veilboost.running.run import logged

ROWS = "".join(f"u{k:03},{k % 7}.5,{k % 5},{k % 2}\n" for k in range(140))
PIN = "sha256:" + "0" * 64
SERVED = {
    "vertical": 'id = "id"\ndrop = ["y"]\nmin_rows = 10\n',
    "exact": f'id = "id"\nlabel = "y"\ncategorical_labels = true\nparty = ["{PIN}"]\nvalid = "rows.csv"\n',
    "private": f'declared = "columns.toml"\nparty = ["{PIN}"]\nbudget = [1.0, 1e-5]\n',
    "private-columns": f'id = "id"\ndeclared = "alone.toml"\nparty = ["{PIN}"]\nbudget = [1.0, 1e-5]\n',
    "simfl": 'id = "id"\nlabel = "y"\ncategorical_labels = true\n',
}
DATA = {
    "vertical": 'id = "id"\nlabel = "y"\n',
    "exact": f'id = "id"\nlabel = "y"\nallowed = ["{PIN}"]\n',
    "private": f'declared = "columns.toml"\nallowed = ["{PIN}"]\n',
    "private-columns": f'id = "id"\ndeclared = "columns.toml"\nallowed = ["{PIN}"]\n',
    "simfl": 'id = "id"\nlabel = "y"\n',
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("id,x,z,y\n" + ROWS)
    (tmp_path / "gone.csv").write_text("id\nu001\nu002\nunknown\n")
    (tmp_path / "columns.toml").write_text('label = "y"\n[bounds]\nx = [0, 7]\nz = [0, 5]\n')
    (tmp_path / "alone.toml").write_text("[bounds]\nx = [0, 7]\nz = [0, 5]\n")
    (tmp_path / "aligned.ids").write_text("".join(f"u{k:03}\n" for k in range(3, 140)))
    return tmp_path


@pytest.mark.parametrize("method", METHODS)
def test_a_served_party_has_the_other_rows(place, method):
    text = f'method = "{method}"\ndata = "rows.csv"\ntls = "certs"\nallow = ["acme"]\nexclude = "gone.csv"\n'
    (place / "bank.toml").write_text(text + SERVED[method])
    served = read_served(place / "bank.toml")[1]
    service = module_of(method, "veilboost.serving").make_service(
        served, TLS.from_directory(certificates("bank"))
    )
    with closing(service.service):
        assert service.n_rows == 138
    assert {one.read()[0] for one in doctor_rows.of_served(method, served)} == {138}


@pytest.mark.parametrize("method", METHODS)
def test_a_run_has_the_other_rows(place, method):
    text = f'method = "{method}"\ntls = "{certificates("acme")}"\n[data]\nfile = "rows.csv"\n'
    private = "epsilon = 1.0\ndelta = 1e-5\n" if method.startswith("private") else ""
    more = f'[[parties]]\nname = "bank"\naddress = "h:1"\n[training]\nrounds = 2\n{private}'
    more += '[parameters]\nobjective = "binary"\n' if private else ""
    for exclude, n_rows in (('exclude = "gone.csv"\n', 138), ("", 140)):
        (place / "plan.toml").write_text(f"{text}{exclude}{DATA[method]}{more}")
        plan = read_plan(place / "plan.toml")
        assert [one.read()[0] for one in doctor_rows.of_plan(plan)] == [n_rows]
    (place / "gone.csv").write_text("person\nu001\n")
    (place / "plan.toml").write_text(f'{text}exclude = "gone.csv"\n{DATA[method]}{more}')
    with ExitStack() as stack, logged(()), pytest.raises(InvalidDataError, match="exclude"):
        module_of(method, "veilboost.running").RUN(read_plan(place / "plan.toml"), "plan.toml", stack)
