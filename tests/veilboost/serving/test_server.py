"""The server of a party: its folder, and the settings of a file."""

from gbdt_commons.sealed import write_sealed
from gbdt_parties.quota import TAKEN
from gbdt_parties.transport.service import part_of
from kept_stores import end_process, restarted
from veilboost import command_line as cli
from veilboost.serving import server
from xgb_fed.horizontal.service import HorizontalService
from xgb_fed.vertical.passive.service import ROLE, KeptSplits
from xgb_fed.vertical.protocol.splits import Splits


def test_an_operator_resets_the_questions(tmp_path, monkeypatch):
    """After a clock that was ahead has been set right."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["certs", "bank"]) == 0
    (tmp_path / "x.csv").write_text("a\n1\n2\n")
    models = tmp_path / "models"
    splits, asked = Splits(["a"], [0], [0.5], [True]), ["questions of acme", "sessions of acme"]
    store = restarted(models, role=ROLE)
    KeptSplits(part_of(store, "acme"))[b"model"] = splits
    for key in asked:
        store.put(TAKEN, key, [1e10] * 120)
    write_sealed(models / "categories.json", {})

    def kept():
        store = restarted(models, role=ROLE)
        found = KeptSplits(part_of(store, "acme"))[b"model"], sorted(store.keys(TAKEN))
        end_process(models)
        return found

    class Stopped:
        def __init__(self, *args):
            raise OSError("stopped")

    monkeypatch.setattr(server, "Server", Stopped)
    options = ["--data", "x.csv", "--tls", "certs/bank", "--allow", "acme"]
    assert kept() == (splits, asked)
    assert cli.main(["serve", "vertical", *options]) == cli.FAILED
    assert kept() == (splits, asked)
    assert cli.main(["serve", "vertical", *options, "--reset-questions"]) == cli.FAILED
    assert kept() == (splits, [])
    assert (models / "categories.json").exists()


def test_a_file_serves_a_party_beside_it(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    assert cli.main(["certs", "north"]) == 0
    (home / "x.csv").write_text("a,ill\n1,0\n2,1\n")
    (home / "north.toml").write_text(
        'method = "simfl"\ndata = "x.csv"\ntls = "certs/north"\nallow = ["acme"]\n'
        'listen = "127.0.0.1:0"\nlabel = "ill"\ncategorical_labels = true\nmax_models = 7\n'
    )
    monkeypatch.chdir(tmp_path)
    served = []

    def stopped(*arguments):
        served.extend(arguments)
        raise OSError("stopped")

    monkeypatch.setattr(server, "Server", stopped)
    assert cli.main(["serve", "home/north.toml", "--reset-questions"]) == cli.FAILED
    service, listen, _, allow = served
    assert (type(service), listen, allow) == (HorizontalService, "127.0.0.1:0", ["acme"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]
    assert (home / "models" / "horizontal.store").exists()


def test_a_second_server_does_not_use_the_folder_of_the_first(tmp_path, monkeypatch, capfd):
    """Before, each counted questions and sessions for itself."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["certs", "bank"]) == 0
    (tmp_path / "x.csv").write_text("a\n1\n2\n")
    options = ["serve", "vertical", "--data", "x.csv", "--tls", "certs/bank", "--allow", "acme"]
    answers = []

    class Meanwhile:
        def __init__(self, *args):
            answers.append(cli.main(options))
            raise OSError("stopped")

    monkeypatch.setattr(server, "Server", Meanwhile)
    assert cli.main(options) == cli.FAILED
    assert len(answers) == 1
    assert "in use by another process" in capfd.readouterr().err
