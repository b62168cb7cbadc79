"""Certificates, made-up rows and plans of three hospitals: ``python make_files.py FOLDER``."""

import argparse
import csv
import shutil
from pathlib import Path

import numpy as np

from gbdt_parties.identity.certificates import make_authority, make_certificate

HERE = Path(__file__).parent
NAMES = ("north", "south", "west")
PORTS = (7001, 7002, 7003)
SERVED = """# {name}'s file of `veilboost serve`, which admits its Flower node.
method = "private"
declared = "columns.toml"
data = "{name}.csv"
tls = "certs/{name}"
allow = ["{name}-node"]
party = {others}
budget = [1.5, 1e-5]
min_parties = 3
listen = "127.0.0.1:{port}"
models = "{name}"
"""
EXACT = """# {name}'s file of `veilboost serve` for exact training, which admits its Flower node.
method = "exact"
data = "{name}.csv"
label = "ill"
categorical_labels = true
drop = ["sex"]
tls = "certs/{name}"
allow = ["{name}-node"]
party = {others}
min_parties = 3
listen = "127.0.0.1:{port}"
models = "{name}-exact"
"""


def write_rows(path: Path, n_rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    age, pressure = random.uniform(0, 100, n_rows).round(1), random.uniform(60, 200, n_rows).round()
    ill = (age / 100 + (pressure > 140) + random.normal(size=n_rows) / 3 > 1).astype(int)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "pressure", "sex", "ill"])
        writer.writerows(zip(age, pressure, random.choice(["f", "m"], n_rows), ill, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=2000, help="of each hospital (%(default)s)")
    args = parser.parse_args()
    certs = args.folder / "certs"
    make_authority(certs / "ca")
    prints = {
        name: f"sha256:{make_certificate(certs / name, certs / 'ca', name, []).fingerprint}" for name in NAMES
    }
    for seed, (name, port) in enumerate(zip(NAMES, PORTS, strict=True)):
        make_certificate(certs / f"{name}-node", certs / "ca", f"{name}-node", [])
        write_rows(args.folder / f"{name}.csv", args.rows, seed)
        about = {"name": name, "others": [prints[other] for other in NAMES if other != name], "port": port}
        (args.folder / f"{name}.toml").write_text(SERVED.format(**about))
        (args.folder / f"{name}-exact.toml").write_text(EXACT.format(**about))
    for name in ("columns.toml", "plan.toml", "exact.toml"):
        shutil.copy(HERE / name, args.folder / name)


if __name__ == "__main__":
    main()
