"""Ed25519's curve in plain integers (RFC 8032): slow, and independent of libsodium."""

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
NEUTRAL = (0, 1)


def add(a, b):
    k = D * a[0] * b[0] * a[1] * b[1] % P
    return (a[0] * b[1] + b[0] * a[1]) * pow(1 + k, -1, P) % P, (a[1] * b[1] + a[0] * b[0]) * pow(
        1 - k, -1, P
    ) % P


def times(n, a):
    total = NEUTRAL
    while n:
        total = add(total, a) if n & 1 else total
        a, n = add(a, a), n >> 1
    return total


def encoded(a):
    return (a[1] | (a[0] & 1) << 255).to_bytes(32, "little")


def with_y(y, sign=0):
    """The point with this y and the sign of x; None if there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if (x * x - square) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P:
        return None
    return (x if x & 1 == sign else -x % P), y


def decoded(octets):
    number = int.from_bytes(octets, "little")
    return with_y(number & ((1 << 255) - 1), number >> 255)


GENERATOR = with_y(4 * pow(5, -1, P) % P)


def _of_order_8():
    for y in range(2, 100):
        point = with_y(y)
        if point and times(4, times(L, point)) != NEUTRAL:
            return times(L, point)
    raise AssertionError


TORSION = [times(k, _of_order_8()) for k in range(8)]
"""The points T with 8·T = 0."""
