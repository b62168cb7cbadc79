"""Write vectors.json: numbers made by phe and bytes made by this release, under keys too short for use.

Run it only to change the format on purpose: the tests prove that stored bytes can still be read.
"""

import json
from pathlib import Path

import phe

from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier

PLAINTEXTS = [0, 1, 2, 255, 2**52, 2**64 - 1, 2**64, 2**130 + 12345]


def main() -> None:
    """Make everything afresh."""
    public, private = phe.generate_paillier_keypair(n_length=768)
    vectors = {
        "plaintexts": PLAINTEXTS,
        "phe": {
            "p": int(private.p),
            "q": int(private.q),
            "ciphertexts": [int(public.raw_encrypt(m)) for m in PLAINTEXTS],
        },
    }
    for name, scheme in (("paillier", Paillier), ("okamoto-uchiyama", OkamotoUchiyama)):
        key = scheme(768, allow_weak_key=True).generate()
        vectors[name] = {
            "private": key.private_bytes().hex(),
            "public": key.public.public_bytes().hex(),
            "ciphertexts": key.public.to_bytes(key.encrypt(PLAINTEXTS)).hex(),
        }
    Path(__file__).with_name("vectors.json").write_text(json.dumps(vectors, indent=1) + "\n")


if __name__ == "__main__":
    main()
