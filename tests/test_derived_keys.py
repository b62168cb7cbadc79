"""Where keys are derived from others: every place is known, and docs/threat-model.md says what of."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("plugins", "patches", "lgb_dp", "xgb_fed")

DERIVED = {
    "plugins/gbdt_parties/secure_sum/keys.py": {"HKDF", "exchange"},
    "plugins/gbdt_parties/secure_sum/masks.py": {"HKDF", "KeyStream"},
    "plugins/gbdt_parties/two_party/session.py": {"HKDF", "KeyStream"},
    "lgb_dp/boosting/training.py": {"public"},  # of `RunRows.key`, which made-up rows alone have
    "lgb_dp/explaining/bootstrap.py": {"public"},
    "lgb_dp/federated/replica.py": {"KeyStream"},  # of `SessionKeys.noise_key`, as the next
    "lgb_dp/federated/run.py": {"KeyStream"},
    "lgb_dp/mechanisms/rng.py": {"KeyStream"},
    "lgb_dp/newton/core.py": {"public"},
    "lgb_dp/vertical/prediction/rows.py": {"hmac.digest"},
    "xgb_fed/ciphers/randomness.py": {"KeyStream"},
    "xgb_fed/ciphers/short_ciphertexts.py": {"KeyStream"},  # a public seed, new for each message
    "xgb_fed/horizontal/common/party_state.py": {"SecretStream", "hmac.digest"},
    "xgb_fed/horizontal/exact/training.py": {"SecretStream"},
    "xgb_fed/horizontal/simfl/lsh.py": {"SecretStream"},
    "xgb_fed/vertical/passive/session.py": {"hmac.digest"},
    "xgb_fed/vertical/training/auditing.py": {"hmac.digest"},
    "xgb_fed/vertical/training/rounds.py": {"SecretStream"},
}
"""Functions that take a key or a secret, by the file in which they are called with one."""

TABLE = (
    "masks.py",
    "session.py",
    "keys.py",
    "auditing.py",
    "passive/session.py",
    "names.py",
    "roster.py",
    "exact/training.py",
    "party_state.py",
    "hash_seed.py",
    "lsh.py",
    "rng.py",
    "rows.py",
    "short_ciphertexts.py",
    "replica.py",
    "bootstrap.py",
)


def derivations(path):
    """Calls that make a key, or a stream under a given one."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and (node.args or node.keywords)):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        if last in ("HKDF", "KeyStream", "SecretStream", "exchange", "X25519PrivateKey"):
            found.add(last)
        elif name in ("hmac.digest", "hmac.new") or name.endswith("SecureRandom.public"):
            found.add(name if name.startswith("hmac") else last)
    return found


def test_every_derived_key_is_in_a_known_place():
    found = {}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            names = derivations(path)
            if names:
                found[path.relative_to(ROOT).as_posix()] = names
    assert found == DERIVED


def test_the_threat_model_says_what_derived_keys_are_bound_to():
    text = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    section = text.partition("## Derived keys and digests")[2].partition("\n## ")[0]
    for name in (*TABLE, "rounds.py"):
        assert f"`{name}`" in section
