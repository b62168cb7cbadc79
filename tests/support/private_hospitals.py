"""The commands of the documentation's runs across organisations, as they are written there."""

import csv
import re
import shlex
from pathlib import Path

import numpy as np

from forked_commands import Command
from free_ports import free_port

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "federated-private.md"
HEADING = "## Behind servers"


def written(page=PAGE):
    """Files by their name, and commands, of a page's part about servers."""
    part = page.read_text().split(HEADING)[1].split("\n## ")[0]
    files = {name: text for name, text in re.findall(r"```toml\n# (\S+)\n(.*?)```", part, re.S)}
    return files, re.findall(r"^\$ veilboost (.+)$", part, re.M)


def write_rows(path, n_rows, seed, labelled=True):
    random = np.random.default_rng(seed)
    age, pressure = random.uniform(0, 100, n_rows).round(1), random.uniform(60, 200, n_rows).round()
    sex = random.choice(["f", "m"], n_rows)
    ill = (age / 100 + (pressure > 140) + random.normal(size=n_rows) / 3 > 1).astype(int)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", "pressure", "age", "sex", *(["ill"] if labelled else [])])
        for k in range(n_rows):
            row = [f"secret-{seed}-{k}", pressure[k], age[k], sex[k]]
            writer.writerow([*row, ill[k]] if labelled else row)


class Written:
    """The page's files and commands in a folder, with fingerprints and free ports filled in.

    Parameters
    ----------
    folder : Path
    fingerprints : mapping of name to str
    changes : mapping of str to str
        Further replacements.
    page : Path
    """

    def __init__(self, folder, fingerprints, changes=None, page=PAGE):
        files, commands = written(page)
        filled = {f"${name.upper()}": value for name, value in fingerprints.items()}
        ports = {written: str(free_port()) for written in ("7001", "7002")}
        replaced = {**filled, **ports, **(changes or {})}
        self.folder, self.servers = folder, {}

        def fill(text):
            # In one pass: a fingerprint may hold the digits of a port.
            return re.sub("|".join(map(re.escape, replaced)), lambda found: replaced[found[0]], text)

        for name, text in files.items():
            (folder / name).write_text(fill(text))
        self.commands = [shlex.split(fill(command)) for command in commands]

    def of(self, kind):
        """The commands of one kind, without `certs`."""
        return [command for command in self.commands if command[0] == kind]

    def serve(self, number, *options):
        """Start the server of a command, with further options; gives its process."""
        command = [*self.of("serve")[number], *options]
        name = command[command.index("--models") + 1]
        with open(self.folder / f"{name}.log", "a") as log:
            process = Command(command, cwd=self.folder, stderr=log)
        self.servers[number] = process
        line = process.stdout.readline()
        assert line.startswith("listening"), (self.folder / f"{name}.log").read_text()
        return process

    def stop(self):
        """Kill all servers."""
        for process in self.servers.values():
            process.kill()
            process.wait()
