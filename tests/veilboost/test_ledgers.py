"""The command that shows a party's ledger."""

import subprocess
import sys

from federated_training import party, train
from veilboost.command_line import main


def test_what_was_answered_and_what_it_cost(tmp_path, capsys):
    members = [party(0, folder=tmp_path / "ada"), party(1), party(2)]
    booster = train(members, 3)
    assert main(["ledger", str(tmp_path / "ada")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[2:5] == ["label", "counts", "1"]
    assert lines[2].split()[2:5] == ["leaf", "sums", "3"]
    assert lines[3] == "budget: epsilon = 50, delta = 1e-05 (add or remove one row at one party)"
    assert f"which is epsilon = {booster.privacy.spent[0]:.3g}" in lines[4]


def test_a_folder_without_a_ledger(tmp_path, capsys):
    (tmp_path / "model.txt").write_text("tree\n")
    for path in (tmp_path, tmp_path / "absent", tmp_path / "model.txt"):
        assert main(["ledger", str(path)]) == 1
        assert f"{path} is not the folder of a party that has answered in private" in capsys.readouterr().err


def test_a_ledger_is_read_without_lightgbm_and_its_compilers(tmp_path):
    """Before, it took 3.5 seconds of processor time, and now half of one."""
    train([party(0, folder=tmp_path / "ada"), party(1)], 2)
    code = (
        "import sys; from veilboost.command_line import main\n"
        f"assert main(['ledger', {str(tmp_path / 'ada')!r}]) == 0\n"
        "print([name for name in ('lightgbm', 'sklearn', 'numba', 'pandas') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"
