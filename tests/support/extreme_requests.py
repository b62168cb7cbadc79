"""Requests with one value exchanged for an extreme one, and what they cost a served party."""

import json
import random
import signal
import time
import tracemalloc
from contextlib import contextmanager

import numpy as np

from gbdt_commons.errors import VeilboostError
from gbdt_parties import messages
from gbdt_parties.messages import Refusal

SECONDS, MEGABYTES, BYTES_PER_BYTE = 4.0, 48, 40
"""Of processor time for a request; and of memory, beside some for each byte of its own."""

_LONG = 1 << 20
_INTEGERS = (-(2**63), -1, 0, 1, 2**31 - 1, 2**31, 2**36, 2**63 - 1)
_FLOATS = (float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, 0.0, -1.0)
_TEXTS = (
    *("", "x" * _LONG, "\x00\n\u202e\x1b[2J", "9" * _LONG, "[" * _LONG, "null", "1e999", "NaN"),
    *(
        f"[{'[],' * (_LONG // 3)}[]]",
        f"[{'{},' * (_LONG // 3)}[]]",
        '{"a":' * (_LONG // 5),
        "\U0001f600" * 9999,
    ),
)
LEAVES = (
    *(None, True, -1, 0, 1, 2, 17, 300, 2**16, 2**31 - 1, 2**31, 2**36, -(2**36), 2**63 - 1, 2**63),
    *(10**18, 10**400, -(10**400), 10**4000, 1e308, -1e308, float("inf"), float("nan"), 1e-320, 5e-324, 0.5),
    *(
        "",
        "x",
        "\ud800",
        "a\nb",
        "\x00",
        "9" * 4000,
        "9" * 100_000,
        "x" * _LONG,
        "1e400",
        "inf",
        "auto",
        "x y=1",
    ),
    *([], {}, [[]], [0] * 300, [0] * 100_000, {"0": [1]}, ["x y=1"], [{}]),
)
"""Values in the place of any value of a JSON text."""

PARAMETERS = (
    *(
        "max_depth",
        "num_leaves",
        "num_threads",
        "num_class",
        "verbosity",
        "learning_rate",
        "lambda_l2",
        "metric",
    ),
    *("multi_error_top_k", "histogram_pool_size", "auc_mu_weights", "monotone_constraints", "metric_freq"),
    *("alpha", "objective", "max_bin", "num_parallel_tree", "subsample", "colsample_bytree", "base_score"),
    *("quantile_alpha", "eval_metric", "scale_pos_weight", "reg_lambda", "interaction_constraints", "gamma"),
    *("max_delta_step", "random_state", "tweedie_variance_power", "early_stopping_round", "min_child_weight"),
)


def places(content, at=()):
    """Paths to all values of a JSON text, of lists to the first ones."""
    yield at
    inside = content if isinstance(content, dict) else range(min(3, len(content) if _is_list(content) else 0))
    for key in inside:
        yield from places(content[key], (*at, key))


def _is_list(content):
    return isinstance(content, list)


def put(content, at, value):
    """The same JSON with another value in one place."""
    if not at:
        return value
    copy = dict(content) if isinstance(content, dict) else list(content)
    copy[at[0]] = put(copy[at[0]], at[1:], value)
    return copy


_LARGE = "x" * 10**5, [0] * 10**4, {"x" * 10**5: 1}, {str(k): k for k in range(10**4)}, ["y" * 99] * 10**3


def reasons_for_large_values(kind, task):
    """Texts of the refusals of a task of a kind, with large values in the place of any one of its own."""
    content = json.loads(task.to_json())
    changed = [put(content, at, large) for at in places(content) for large in _LARGE]
    for at in places(content):
        inner = content
        for step in at:
            inner = inner[step]
        if isinstance(inner, dict):
            changed += [put(content, at, {**inner, "x" * 10**5: large}) for large in (1, "y" * 10**5)]
    for one in changed:
        try:
            kind.from_json(json.dumps(one))
        except VeilboostError as error:
            yield str(error)


def _other_text(text, draws):
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if content is None or draws.random() < 0.2:
        return draws.choice(_TEXTS)
    at = draws.choice(list(places(content)))
    params = content.get("params", content) if isinstance(content, dict) else None
    if isinstance(params, dict) and draws.random() < 0.5:
        params[draws.choice(PARAMETERS)] = draws.choice(LEAVES)
        return json.dumps(content)
    return json.dumps(put(content, at, draws.choice(LEAVES)))


def _other_bytes(value, draws):
    value = bytes(value)
    others = (
        b"",
        bytes(1),
        bytes(_LONG),
        b"\xff" * _LONG,
        value[:-1],
        value + b"\0",
        b"\xff" * len(value),
        value * 3,
    )
    return draws.choice((*others, value[:8] + b"\xff" * 8 + value[16:]))


def _other_vector(value, draws):
    array = np.array(value)
    extremes = (
        _FLOATS if array.dtype.kind == "f" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max, 0, 1)
    )
    one = draws.choice(extremes)
    others = [array[:0], np.full_like(array, one), np.full(1 << 18, one, array.dtype), np.tile(array, 2)]
    if array.size:
        array[draws.randrange(array.size)] = one
        others.append(array)
    return draws.choice(others)


def changed(request, draws):
    """A request with one field of its message exchanged."""
    envelope = messages.read(request)
    kind, tags = type(envelope.message), messages.tags(type(envelope.message))
    if not tags:
        return request
    name = draws.choice(sorted(tags))
    value, tag = getattr(envelope.message, name), tags[name]
    if tag == "i":
        other = draws.choice(_INTEGERS)
    elif tag == "s":
        other = _other_text(value, draws)
    else:
        other = (_other_bytes if tag in "bcv" else _other_vector)(value, draws)
    try:
        fields = {**envelope.message.__dict__, name: other}
        return messages.write(envelope.session, envelope.sequence, kind(**fields))
    except UnicodeEncodeError:  # half of a surrogate pair, which no text of a message has
        return request


@contextmanager
def ended(seconds=60.0):
    """Give up what has not ended after some seconds; in the main thread."""

    def late(*_):
        raise AssertionError(f"no answer after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def bounded(request):
    """Assert what the answer to a request costs; allocations are traced already."""
    tracemalloc.reset_peak()
    begun, (before, _) = time.process_time(), tracemalloc.get_traced_memory()
    yield
    seconds, peak = time.process_time() - begun, tracemalloc.get_traced_memory()[1] - before
    assert seconds < SECONDS, bytes(request)[:300]
    assert peak < (MEGABYTES << 20) + BYTES_PER_BYTE * len(request), (peak >> 20, bytes(request)[:300])


class Extreme:
    """A caller of a service that exchanges one value of its `at`-th request, and goes on from there.

    Parameters
    ----------
    service : RowService
    identity : Identity
        Of the caller.
    name : str
        The served party's.
    at : int
        0 for none.
    seed : int
    """

    def __init__(self, service, identity, name, at=0, seed=0):
        self._service, self._identity, self.name = service, identity, name
        self._at, self._draws, self.n_calls, self.reasons = at, random.Random(seed), 0, []

    def handle(self, request):
        """The answer, within bounds from the exchanged value on; reasons of refusals are kept."""
        self.n_calls += 1
        if not self._at or self.n_calls < self._at:
            return self._service.handle(self._identity, (), request)
        if self.n_calls == self._at:
            request = changed(request, self._draws)
        with bounded(request):
            answer = self._service.handle(self._identity, (), request)
        message = messages.read(answer).message
        if isinstance(message, Refusal):
            self.reasons.append(message.reason)
        return answer
