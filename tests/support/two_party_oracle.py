"""Two-party computations a second time: one bit, block or row at a time, in plain integers, to compare with.

Nothing here is taken from `gbdt_parties.two_party` or its kernels, but the texts that are hashed.
"""

import hashlib

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

import edwards

WORD = 1 << 64
POLYNOMIAL = (1 << 128) | (1 << 7) | (1 << 2) | 2 | 1


def prefixed(*inputs):
    return b"".join(len(one).to_bytes(8, "little") + one for one in inputs)


def sha(*inputs):
    return hashlib.sha256(prefixed(*inputs)).digest()


def step_bytes(round_number, attempt, flight):
    return round_number.to_bytes(4, "little") + attempt.to_bytes(2, "little") + bytes([flight])


def batch_bytes(batch):
    step = step_bytes(batch.step.round, batch.step.attempt, batch.step.flight)
    return step + b"\0" + batch.number.to_bytes(4, "little")


def step_digest(step, context, *more):
    octets = step_bytes(step.round, step.attempt, step.flight)
    return sha(b"veilboost two-party step 1", context, octets, *more)


def xor(*texts):
    total = 0
    for text in texts:
        total ^= int.from_bytes(text, "big")
    return total.to_bytes(len(texts[0]), "big")


def aes(key, block):
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


# Base transfers, on the curve in plain integers.


def negative(point):
    return (-point[0] % edwards.P, point[1])


def base_points(choice, b, rho, hashed):
    """r_0 and r_1 of one transfer; `hashed` is HG(i, j, octets) for the chosen side."""
    stranger = edwards.encoded(edwards.times(rho, edwards.GENERATOR))
    chosen = edwards.add(edwards.times(b, edwards.GENERATOR), negative(hashed(choice, stranger)))
    pair = [stranger, stranger]
    pair[choice] = edwards.encoded(chosen)
    return pair


def base_key(context, i, side, point, pair, secret):
    text = (b"veilboost base transfer key 1", context, i.to_bytes(2, "little"), bytes([side]))
    return sha(*text, point, b"".join(pair), secret)[:16]


# Trees of seeds.


def tree(context, block, first_pair):
    """Nodes of a block's tree by their paths: tuples of sides, four long for leaves."""
    nodes = {(0,): first_pair[0], (1,): first_pair[1]}
    for level in range(1, 4):
        for path in [path for path in nodes if len(path) == level]:
            x = int("".join(map(str, path)), 2)
            begun = prefixed(b"veilboost two-party node 1", context) + bytes([level])
            both = hashlib.sha256(begun + bytes([block, x]) + nodes[path]).digest()
            nodes[(*path, 0)], nodes[(*path, 1)] = both[:16], both[16:]
    return nodes


def path_of(x):
    return tuple(x >> shift & 1 for shift in (3, 2, 1, 0))


def leaf(context, block, x, node):
    """Check value and seed."""
    begun = prefixed(b"veilboost two-party leaf 1", context) + bytes([block, x])
    made = hashlib.sha512(begun + node).digest()
    return made[:32], made[32:48]


def trees_message(context, pairs):
    """Seeds of all blocks, and the message."""
    corrections, completions, checks, seeds = {}, [], [], []
    for block in range(32):
        nodes = tree(context, block, pairs[4 * block])
        for level in range(1, 4):
            for side in (0, 1):
                children = [n for path, n in nodes.items() if len(path) == level + 1 and path[-1] == side]
                corrections[level, block, side] = xor(*children, pairs[4 * block + level][side])
        leaves = [leaf(context, block, x, nodes[path_of(x)]) for x in range(16)]
        completions.append(xor(*(check for check, _ in leaves)))
        checks += [check for check, _ in leaves]
        seeds.append([seed for _, seed in leaves])
    digest = sha(b"veilboost two-party leaves 1", context, b"".join(checks))
    return seeds, b"".join(corrections[key] for key in sorted(corrections)) + b"".join(completions) + digest


# Transfers.


def stream(seed, batch, n_bits):
    """Bits of one stream of a batch."""
    octets = b"".join(
        aes(seed, batch_bytes(batch) + counter.to_bytes(4, "little")) for counter in range(n_bits // 128)
    )
    return int.from_bytes(octets, "little")


def receiver_columns(seeds, batch, n_bits):
    """t's 128 columns and u of each block, as integers with the first transfer's bit lowest."""
    columns, totals = [0] * 128, [0] * 32
    for block in range(32):
        for x in range(16):
            bits = stream(seeds[block][x], batch, n_bits)
            totals[block] ^= bits
            for m in range(4):
                if x >> m & 1:
                    columns[4 * block + m] ^= bits
    return columns, totals


def ghash(key, text):
    """GHASH of a text whose length is a multiple of 16, and of its length block, less the latter: linear."""
    h = _reversed(aes(key, bytes(16)))

    def run(octets):
        total = 0
        for at in range(0, len(octets), 16):
            total = field_times(total ^ _reversed(octets[at : at + 16]), h)
        return field_times(total ^ _reversed((8 * len(octets)).to_bytes(8, "big") + bytes(8)), h)

    return _unreversed(run(text) ^ run(bytes(len(text))))


def _reversed(block):
    """GCM's first bit is the constant coefficient: the highest bit of the first byte."""
    return int(f"{int.from_bytes(block, 'big'):0128b}"[::-1], 2)


def _unreversed(element):
    return int(f"{element:0128b}"[::-1], 2).to_bytes(16, "big")


def field_times(a, b):
    """Product in GF(2^128), lowest bit the constant coefficient."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a, b = a << 1, b >> 1
        a ^= POLYNOMIAL if a >> 128 else 0
    return product


def transfers_message(context, seeds, batch, choices, n_bits):
    """t of every transfer, and the message; `choices` is an integer of n_bits, spares included."""
    columns, totals = receiver_columns(seeds, batch, n_bits)
    corrections = b"".join((total ^ choices).to_bytes(n_bits // 8, "little") for total in totals)
    key = hashlib.sha256(
        step_digest(batch.step, context, batch_bytes(batch), b"consistency key") + corrections
    )
    key = key.digest()[:16]
    hashed = ghash(key, choices.to_bytes(n_bits // 8, "little"))
    values = b"".join(ghash(key, column.to_bytes(n_bits // 8, "little")) for column in columns)
    digest = step_digest(batch.step, context, batch_bytes(batch), b"consistency values", values)
    return [row(columns, i) for i in range(n_bits)], corrections + hashed + digest


def row(columns, i):
    return sum((column >> i & 1) << c for c, column in enumerate(columns))


def pad(context, step, purpose, x, counter, word):
    """A word of TMMO of a row."""
    key = step_digest(step, context, b"pads", purpose)[:16]
    inner = int.from_bytes(aes(key, x.to_bytes(16, "little")), "little")
    outer = int.from_bytes(aes(key, (inner ^ counter).to_bytes(16, "little")), "little")
    return (inner ^ outer) >> 64 * word & WORD - 1


def combined(rows, n_bits, i):
    """Σ_t x^t·row_t, of row i; `rows` are those of the lowest bit, then those of the next one."""
    per = len(rows) // n_bits
    total = 0
    for t in range(n_bits):
        total ^= field_times(rows[t * per + i], 1 << t)
    return total


# Sums, without transfers.


def leaf_sums(values, leaves, levels):
    """Sums of values by leaf, modulo 2^64."""
    sums = [0] * (1 << levels)
    for value, number in zip(values, leaves, strict=True):
        sums[number] = (sums[number] + int(value)) % WORD
    return sums
