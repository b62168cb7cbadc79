"""Google's `atheris` on what reads bytes of others: messages, lists, plans, models, tables, stores.

Each target is one parser, or a few of one family, in a process of its own, with the branches of our packages
for a guide, from things that our code wrote.  A refusal by an error that the parser documents is right; any
other exception, and a message that reads otherwise than it writes, is a finding, whose bytes the line tells.
Parsers with a fault must be found.

    FUZZ_SECONDS=300 python -m audits.fuzz --out out/audits/fuzz.json
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import logging
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from audits.outcome import HONEST, PLANTED, Audit, Line, Piece, run

LIMITS = (
    "Only branches of Python guide the search: parsers of libraries (SQLite, Arrow, OpenSSL) are run, but "
    "not searched. Kernels are not among the targets. Nothing beyond the time given is seen, nor what a "
    "message that reads well does later."
)
SECONDS, QUICK_SECONDS = float(os.environ.get("FUZZ_SECONDS", "60")), 5.0
MAX_BYTES = 1 << 13
PACKAGES = "gbdt_parties", "gbdt_commons", "gbdt_hosts", "veilboost", "lgb_dp", "xgb_fed"
Read = Callable[[bytes], object]
Target = tuple[Read, list[bytes]]
"""A parser and inputs to begin with."""


def messages() -> Target:
    """All kinds of messages: what is read is written as it was."""
    import gbdt_parties.messages as own

    for root in ("gbdt_parties", "xgb_fed", "lgb_dp"):
        for module in pkgutil.walk_packages(importlib.import_module(root).__path__, f"{root}."):
            if module.name.endswith(("messages", ".exchange", ".task")):
                importlib.import_module(module.name)
    samples: dict[str, Any] = {"s": "{}", "b": b"0" * 16, "v": b"0", "c": b"00"}

    def written(kind: int) -> bytes:
        values = {}
        for name, (tag, *ends) in own.declared(kind).items():
            low = ends[0] if ends else 0
            values[name] = max(low, 0) if tag == "i" else samples.get(tag, [1] * max(low, 2))
        return own.write(b"s" * 16, 3, own.KINDS[kind](**values))

    def read(data: bytes) -> None:
        one = own.read(data)
        assert own.write(one.session, one.sequence, one.message, one.version) == data

    return read, [written(kind) for kind in own.KINDS]


def lists() -> Target:
    """Byte strings of several in one, introductions, rosters, layouts of rounds and signed ends."""
    from gbdt_parties.curve_group import length_prefixed
    from gbdt_parties.run.flights import polled
    from gbdt_parties.secure_sum import messages as sums
    from gbdt_parties.secure_sum.keys import SessionKeys
    from gbdt_parties.secure_sum.roster import Introduction, Roster, SignedEnd
    from gbdt_parties.secure_sum.trust import Credentials
    from gbdt_parties.two_party.layout import RoundLayout
    from two_party_sides import layout_of

    readers: list[Read] = [
        polled.unpacked,
        sums.unpack,
        sums.Opened.from_bytes,
        Introduction.from_bytes,
        Roster.from_bytes,
        RoundLayout.from_bytes,
        lambda data: SignedEnd.from_json(data.decode(errors="replace")),
    ]
    parties = {name: Credentials.self_signed(name) for name in ("ada", "bob")}
    own = [Introduction.of(name, one, SessionKeys()) for name, one in parties.items()]
    roster = Roster(b"s" * 16, bytes(32), tuple(own))
    endorsements = [one.sign(roster.digest) for one in parties.values()]
    samples = [
        length_prefixed([b"one", b"two"]),
        sums.pack([b"one", b"two"]),
        sums.Opened(1, 2, {0: b"a", 1: b"b"}).to_bytes(),
        own[0].to_bytes(),
        roster.to_bytes(),
        layout_of(100, owners=(0, 1)).to_bytes(),
        SignedEnd(roster, endorsements, bytes(32), [bytes(32)], [b"", b"signature"]).to_json().encode(),
    ]
    return lambda data: readers[data[0] % len(readers)](data[1:]) if data else None, [
        bytes([k]) + one for k, one in enumerate(samples)
    ]


def tasks() -> Target:
    """Settings of runs, and JSON of others."""
    from gbdt_parties.agreed import read_json
    from lgb_dp.federated.task import FederatedTask
    from lgb_dp.vertical.task import ColumnTask
    from xgb_fed.horizontal.exact.task import ExactTask

    kinds = FederatedTask, ColumnTask, ExactTask
    more = {"structure": "auto", "hessian_share": "auto"}
    settings = {"epsilon": 1.0, "delta": 1e-5, "depth": "auto", "gradient_clip": "auto"}
    federated = FederatedTask({"objective": "binary"}, {**settings, **more}, 4, 5, 1, 2, 1)
    exact = ExactTask({"max_depth": 3}, 1, 2, [], [0, 1], [[-1.0, 2.0], [0.0]], 10, 2, None, 0)
    apart = ColumnTask("labels", {"objective": "binary"}, settings, 3, 1, 99, None, {})

    def read(data: bytes) -> None:
        text = data[1:].decode(errors="replace")
        if (k := data[0] % 4 if data else 3) < 3:
            kinds[k].from_json(text)
        try:
            read_json(text)
        except ValueError:
            return

    return read, [bytes([k]) + one.to_json().encode() for k, one in enumerate((federated, apart, exact))]


def plans() -> Target:
    """Plans and settings of served parties, as TOML and as YAML."""
    from veilboost.plans.plan import read_plan, read_served

    folder = _folder()
    served = b'method = "exact"\ntls = "certs"\ndata = "a.csv"\nlabel = "y"\nallow = ["sha256:00"]\n'
    toml = b'tls = "certs"\n[data]\nfile = "a.csv"\nid = "i"\nlabel = "y"\n[[parties]]\nname = "b"\n'
    toml += b'address = "h:1"\n'
    yaml = b"tls: certs\nparties:\n- {name: b, address: 'h:1'}\ndata: {file: a.csv, id: i, label: y}\n"

    def read(data: bytes) -> None:
        kind = data[0] % 4 if data else 0
        path = folder / ("plan.toml" if kind < 2 else "plan.yaml")
        path.write_bytes(data[1:])
        (read_served if kind % 2 else read_plan)(path)

    return read, [b"\0" + toml, b"\1" + served, b"\2" + yaml]


def models() -> Target:
    """Files of models, private ones and XGBoost's, and statements about them."""
    import lightgbm
    import xgboost

    import lgb_dp
    from veilboost.model_statements import statement_of

    rows, labels = [[0.1], [0.2], [0.9]] * 5, [0, 0, 1] * 5
    data = lgb_dp.Dataset(rows, labels, bounds=(0, 1))
    params = {"objective": "binary", "verbosity": -1, "max_depth": 2}
    private = lightgbm.train(params, data, 2, callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)])
    native = xgboost.train({"max_depth": 2}, xgboost.DMatrix(rows, labels), 2)
    file = _folder() / "model.txt"

    def read(content: bytes) -> None:
        file.write_bytes(content)
        statement_of(str(file))

    return read, [private.model_to_string().encode(), bytes(native.save_raw("json"))]


def tables() -> Target:
    """Rows in CSV and LIBSVM files, with ids, labels and categories."""
    from veilboost.plans.tables import read_table

    folder = _folder()

    def read(data: bytes) -> None:
        kind = data[0] % 4 if data else 0
        path = folder / ("rows.svm" if kind == 3 else "rows.csv")
        path.write_bytes(data[1:])
        choices: list[dict[str, Any]] = [{}, {"id_column": "i", "label": "y"}, {"one_hot": ["c"]}, {}]
        read_table(path, **choices[kind])

    rows = b"i,y,c,x\n1,0,a,2.5\n2,1,b,\n"
    return read, [bytes([k]) + rows for k in range(3)] + [b"\3" + b"1 1:0.5 3:2\n0 2:1e3\n"]


def kept_files() -> Target:
    """Stores, sealed files and records."""
    from gbdt_commons.sealed import read_sealed, write_sealed
    from gbdt_commons.store import bytes_kind
    from gbdt_commons.store_file import StoreFile, remove_store
    from gbdt_parties.identity.record import read_record

    folder = _folder()
    path, other = folder / "a.store", folder / "a.json"
    with closing(StoreFile(path, "party")) as store:
        store.append(bytes_kind("kind"), "key", b"content")
    whole = path.read_bytes()
    write_sealed(other, {"a": [1, 2.5, "x"]})
    sealed = other.read_bytes()

    def read(data: bytes) -> None:
        kind = data[0] % 3 if data else 0
        if kind == 0:
            remove_store(path)
            path.write_bytes(data[1:])
            StoreFile(path, "party").close()
        elif kind == 1:
            other.write_bytes(data[1:])
            try:
                read_sealed(other)
            except ValueError:
                return
        else:
            other.write_bytes(data[1:])
            read_record(other)

    return read, [b"\0" + whole, b"\1" + sealed, b"\2" + b'{"veilboost record": 1}\n{"time": "2026"}\n']


def certificates() -> Target:
    """Certificates and keys, of a folder and as others show them."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    from gbdt_commons.errors import VeilboostError
    from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
    from gbdt_parties.secure_sum.trust import AllowList, check_signature, fingerprint, key_pin

    folder = _folder()
    make_authority(folder)
    make_certificate(folder / "ada", folder, "ada")
    files = sorted((folder / "ada").iterdir())
    before = {file: file.read_bytes() for file in files}
    pem = before[folder / "ada" / "party.pem"]
    parsed = x509.load_pem_x509_certificate(pem)
    checks: list[Read] = [
        lambda shown: AllowList(None, before[folder / "ada" / "ca.pem"], True).check(shown, "ada"),
        lambda shown: AllowList().check(shown, "ada"),
        lambda shown: check_signature(shown, b"digest", b"signature", "ada"),
        fingerprint,
        key_pin,
    ]

    def read(data: bytes) -> None:
        kind = data[0] % 4 if data else 3
        if kind == 3:  # DER, so that every byte counts
            body = base64.encodebytes(data[1:])
            data = b"\0-----BEGIN CERTIFICATE-----\n" + body + b"-----END CERTIFICATE-----\n"
            kind = 0
        if kind == 0:
            for check in checks:
                try:
                    check(data[1:])
                except VeilboostError:
                    continue
            return
        for file, content in before.items():
            file.write_bytes(content)
        files[kind % len(files)].write_bytes(data[1:])
        TLS.from_directory(folder / "ada").fault()

    return read, [
        b"\0" + pem,
        *(bytes([k]) + before[file] for k, file in enumerate(files)),
        b"\3" + (parsed.public_bytes(Encoding.DER)),
    ]


def ciphers() -> Target:
    """Keys and ciphertexts, whose digest is put right, so that the rest is searched."""
    from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
    from xgb_fed.ciphers.public_keys import read_public_key
    from xgb_fed.ciphers.serialization import unpack

    key = OkamotoUchiyama(1024, allow_weak_key=True).generate()

    def read(data: bytes) -> None:
        whole = data + hashlib.sha256(data).digest()
        unpack(whole)
        read_public_key(whole)

    return read, [key.public.public_bytes()[:-32]]


TARGETS: dict[str, Callable[[], Target]] = {
    one.__name__: one
    for one in (messages, lists, tasks, plans, models, tables, kept_files, certificates, ciphers)
}


def lost_fields() -> Any:
    """A kind of message whose fields are forgotten: it ends in a KeyError."""
    import gbdt_parties.messages as own

    known = own.declared
    return patch.object(
        own, "declared", lambda kind: known(kind) if kind != own.Refusal.kind else {}["fields"]
    )


def lax_lists() -> Any:
    """A list of byte strings that is read without a look at its length."""
    from gbdt_parties.secure_sum import messages as sums

    def unpack(data: bytes) -> list[bytes]:
        n, parts = sums._LENGTH.size, []
        while data:
            (length,) = sums._LENGTH.unpack_from(data)
            parts.append(data[n : n + length])
            data = data[n + length :]
        return parts

    return patch.object(sums, "unpack", unpack)


FAULTS = {"messages": lost_fields, "lists": lax_lists}
"""By target."""


def _folder() -> Path:
    """A folder in memory where there is one, for the life of the process."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="veilboost-fuzz-", dir=shared if shared.exists() else None))


def search(name: str, fault: str, seconds: str, folder: str) -> None:
    """Search one target until the time is over or something is found; it ends the process."""
    import atheris

    # What the table of lines has loaded is not instrumented.
    for loaded in [one for one in sys.modules if one.partition(".")[0] in PACKAGES]:
        del sys.modules[loaded]
    with atheris.instrument_imports(include=list(PACKAGES)):
        from gbdt_commons.errors import VeilboostError

        read, seeds = TARGETS[name]()
    corpus = Path(folder, "corpus")
    corpus.mkdir()
    for k, seed in enumerate(seeds):
        (corpus / str(k)).write_bytes(seed)

    def one_input(data: bytes) -> None:
        try:
            read(data)
        except VeilboostError:
            return

    logging.disable()
    warnings.simplefilter("ignore")
    options = [f"-max_total_time={seconds}", f"-max_len={max(MAX_BYTES, *map(len, seeds))}", "-timeout=30"]
    options += [f"-artifact_prefix={folder}/", "-print_final_stats=1", "-rss_limit_mb=4096", str(corpus)]
    with FAULTS[fault]() if fault else nullcontext():
        atheris.Setup([sys.argv[0], *options], one_input)
        atheris.Fuzz()


def searched(name: str, fault: str, outside: str, seconds: float) -> Iterator[Line]:
    """The line of one target, or of a parser with a fault."""
    with tempfile.TemporaryDirectory() as folder:
        child = subprocess.run(
            [sys.executable, "-m", "audits.fuzz", "--one", name, fault, f"{seconds:.0f}", folder],
            capture_output=True,
            text=True,
            errors="replace",
        )
        inputs = re.findall(r"number_of_executed_units: (\d+)", child.stderr)
        seen = f"{int(inputs[0]):,} inputs" if inputs else "no input"
        crashes = [path for path in Path(folder).iterdir() if path.is_file()]
        if child.returncode:
            raised = [
                line for line in child.stdout.splitlines() if re.match(r"[\w.]*([Ee]rror|Exception)\b", line)
            ]
            seen += f", {raised[-1][:100] if raised else child.stderr[-200:]!r}"
            seen += "".join(f", {path.read_bytes()[:2000].hex()}" for path in crashes)
    title = f"{name}: {FAULTS[fault].__name__.replace('_', ' ')}" if fault else name
    yield Line(outside, title, f"{seconds:.0f} s", bool(child.returncode), seen, PLANTED if fault else HONEST)


def pieces(audit: Audit, quick: bool) -> list[Piece]:
    if not (found := audit.package("atheris")):
        return []
    seconds = QUICK_SECONDS if quick else SECONDS
    return [partial(searched, name, "", found[1], seconds) for name in TARGETS] + [
        partial(searched, name, name, found[1], min(seconds, 60.0)) for name in FAULTS
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        search(*sys.argv[2:])
    run("parsers of what others write", LIMITS, __doc__, pieces)
