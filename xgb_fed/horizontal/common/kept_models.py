"""The finished models that a horizontal party keeps for one coordinator."""

from __future__ import annotations

from pathlib import Path

from gbdt_commons.files import make_folder, write_signed
from gbdt_parties.errors import ProtocolError


class KeptModels:
    """A folder with one file per finished training run, and room for so many of them."""

    def __init__(self, directory: Path, max_models: int) -> None:
        self._directory, self._max_models = make_folder(directory), max_models

    def check_room(self, run: bytes | None = None) -> None:
        """Refuse one more model; that of a run that is there already may be replaced.

        Runs are named by the session in which boosting started, once it is known.
        """
        names = {path.name for path in self._directory.glob("*.json")}
        if len(names - {"" if run is None else self._name(run)}) >= self._max_models:
            raise ProtocolError(
                f"this party keeps at most {self._max_models} models of one coordinator; its operator can "
                "remove some (veilboost models)"
            )

    def keep(self, run: bytes, model: bytes, signatures: str = "") -> None:
        """Keep a finished model, if there is room, and the signatures of parties that have the same one."""
        self.check_room(run)
        write_signed(self._directory / self._name(run), model, signatures)

    @staticmethod
    def _name(run: bytes) -> str:
        return f"{run.hex()}.json"
