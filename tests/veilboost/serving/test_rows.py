"""The rows of a served party's file."""

import dataclasses

import pytest

from gbdt_parties.errors import InvalidDataError
from veilboost.plans.plan import METHODS
from veilboost.serving import exact, simfl


@pytest.mark.parametrize(("kind", "module"), [("exact", exact), ("simfl", simfl)])
def test_the_column_of_ids_is_no_feature_and_has_no_duplicates(kind, module, tmp_path, monkeypatch):
    class Read(Exception):
        pass

    def stop(served, table, *_, **__):
        raise Read(table)

    monkeypatch.setattr(module, "horizontal_service", stop)
    monkeypatch.setattr(module.Identity, "of", lambda _: dataclasses.make_dataclass("Named", ["name"])("a"))
    if kind == "exact":
        monkeypatch.setattr(module, "ExactTerms", lambda **_: None)
    path = tmp_path / "rows.csv"
    more = {"party": ["sha256:" + "0" * 64]} if kind == "exact" else {}
    served = METHODS[kind].served(
        data=str(path), tls="certs", allow=["acme"], label="ill", id="patient", **more
    )
    tls = dataclasses.make_dataclass("Files", ["certificate"])("x")
    path.write_text("patient,age,ill\n1,30,0\n2,40,1\n")
    with pytest.raises(Read) as caught:
        module.make_service(served, tls)
    assert caught.value.args[0].columns.n_features == 1
    path.write_text("patient,age,ill\n1,30,0\n1,40,1\n")
    with pytest.raises(InvalidDataError, match="1 ids occur"):
        module.make_service(served, tls)
