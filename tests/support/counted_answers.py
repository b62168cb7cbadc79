"""Talking to a passive party message by message, with what its answers tell as linear equations."""

import os

import numpy as np

from gbdt_parties import messages
from gbdt_parties.messages import from_bits, to_bits
from xgb_fed import Plain
from xgb_fed.vertical.protocol.messages import (
    SPLIT_BY_OTHERS,
    SPLIT_BY_YOU,
    FindSplits,
    Gradients,
    OpenModel,
    OpenTraining,
    RouteRows,
    SplitNodes,
    StartTree,
)
from xgb_fed.vertical.protocol.packing import packing_for

KEY = Plain().generate()
NO_BITS = np.empty(0, dtype=np.uint8)
ALL_ROWS = np.empty(0, dtype=np.int32)


class Talk:
    """One session with a handler, message by message."""

    def __init__(self, handle, session=None):
        self.handle, self.session, self.sequence = handle, session or os.urandom(16), 0

    def ask(self, message):
        answer = self.handle(messages.write(self.session, self.sequence, message))
        self.sequence += 1
        return messages.read(answer).message


def layout(n_rows, n_classes=1, key=KEY):
    """`field_bits` and `n_groups` as an honest active party announces them."""
    packing = packing_for(n_rows, n_classes, key.public.plaintext_limit)
    return packing.gh.bits * packing.classes_per_ciphertext, len(packing.groups)


def opening(n_rows, rows=ALL_ROWS, max_bin=8, n_classes=1, eval_rows=(), max_depth=3):
    bits, n_groups = layout(n_rows, n_classes)
    rows, evaluation = np.asarray(rows, dtype=np.int32), np.array(eval_rows, dtype=np.int64)
    public = KEY.public.public_bytes()
    return OpenTraining(public, n_rows, max_bin, bits, n_groups, max_depth, rows, evaluation)


def start(columns, sampled=None, tree=0):
    bits = NO_BITS if sampled is None else to_bits(np.asarray(sampled, dtype=bool))
    return StartTree(tree, bits, np.asarray(columns, dtype=np.int32))


def gradients(n_rows, group=0):
    return Gradients(group, 0, KEY.public.to_bytes(KEY.encrypt([1] * n_rows)))


ROOT = FindSplits(NO_BITS, NO_BITS)


def split(nodes, column, last_left, default_left=0):
    n = len(nodes)
    return SplitNodes(
        np.asarray(nodes, dtype=np.int32),
        np.full(n, column, dtype=np.int32),
        np.full(n, last_left, dtype=np.int32),
        np.full(n, default_left, dtype=np.uint8),
    )


def route(n_rows, split_ids, dataset=0):
    flags = np.tile(to_bits(np.ones(n_rows, dtype=bool)), len(split_ids))
    ids = np.asarray(split_ids, dtype=np.int32)
    return RouteRows(dataset, ids, np.full(len(ids), n_rows, dtype=np.int32), flags)


def predicted(model, rows):
    return OpenModel(model, len(rows), np.asarray(rows, dtype=np.int32))


class Equations:
    """The equations that a caller has got about the rows of a table with columns of few values.

    A column's unknowns are the indicators of its values and of a missing value, for each row.
    """

    def __init__(self, X):
        self.X, self.sums, self.sides = X, [], {}
        self.values = [np.unique(x[~np.isnan(x)]) for x in X.T]

    def add_sums(self, rows, random, n_classes=1, n_rows_only=False):
        """Sums over some rows, with gradients that the caller knows."""
        for k in range(1 if n_rows_only else 1 + 2 * n_classes):
            equation = np.zeros(len(self.X))
            equation[rows] = 1 if k == 0 else random.normal(size=len(rows))
            self.sums.append(equation)

    def add_sides(self, rows, column, threshold, default_left):
        """The sides of some rows at a split."""
        left = [*(self.values[column] < threshold), bool(default_left)]
        for row in rows:
            self.sides.setdefault((column, int(row)), set()).add(tuple(left))

    def of_one_bin(self):
        """Independent equations for the indicators of one bin."""
        return int(np.linalg.matrix_rank(np.array(self.sums))) if self.sums else 0

    def of_sides(self, column):
        """Independent equations for a column that sides gave."""
        told = [np.array(sorted(s), dtype=float) for (c, _), s in self.sides.items() if c == column]
        return sum(int(np.linalg.matrix_rank(of_row)) for of_row in told)


class HonestLooking:
    """A session that asks what an honest active party might ask, of rows and splits of its own choice."""

    def __init__(self, handler, equations, random, n_classes=1):
        self.handler, self.equations, self.random = handler, equations, random
        self.n_classes = n_classes

    def run(self):
        """Ask until the session ends or is refused; yields after each answer."""
        r, X = self.random, self.equations.X
        m = int(r.integers(len(X) // 2, len(X) + 1))
        rows = np.sort(r.permutation(len(X))[:m])
        talk = Talk(self.handler.handle)
        asked = opening(m, rows, int(r.choice([4, 8])), self.n_classes)
        if isinstance(talk.ask(asked), messages.Refusal):
            return
        self.equations.add_sums(rows, r, n_rows_only=True)
        yield
        for tree in range(2):
            sampled = np.ones(m, dtype=bool) if r.random() < 0.5 else r.random(m) < 0.7
            talk.ask(start(range(X.shape[1]), sampled, tree))
            for group in range(asked.n_groups):
                talk.ask(gradients(int(sampled.sum()), group))
            yield from self._grow(talk, rows, sampled)
        if r.random() < 0.5:
            talk.ask(messages.Abort())
            return
        talk.ask(messages.Finish())
        yield from self._predict(talk.session)

    def _grow(self, talk, rows, sampled):
        r, nodes, question = self.random, [np.arange(len(rows))], ROOT
        for _ in range(3):
            answer = talk.ask(question)
            if isinstance(answer, messages.Refusal):
                return
            n_sampled = [int(sampled[node].sum()) for node in nodes]
            for node, n in zip(nodes, n_sampled, strict=True):
                if n >= 2:
                    self.equations.add_sums(rows[node[sampled[node]]], r, self.n_classes)
            yield
            node = int(np.argmax(n_sampled))
            flags = yield from self._divide(talk, rows, nodes, node)
            if flags is None:
                return
            mine, left = flags
            assignment = np.zeros(len(nodes), dtype=np.uint8)
            assignment[node] = SPLIT_BY_YOU if mine else SPLIT_BY_OTHERS
            question = FindSplits(assignment, NO_BITS if mine else to_bits(left))
            nodes = [nodes[node][left], nodes[node][~left]]

    def _divide(self, talk, rows, nodes, node):
        """Divide a node, by a split of the party's or of the caller's own."""
        r, columns = self.random, self.equations.X.shape[1]
        if r.random() < 0.4:
            left = r.random(len(nodes[node])) < 0.5
            return None if left.all() or not left.any() else (False, left)
        column = int(r.integers(columns))
        last = int(r.integers(len(self.equations.values[column]) - 1))
        answer = talk.ask(split([node], column, last, int(r.integers(2))))
        if isinstance(answer, messages.Refusal):
            return None
        kept = self.handler.splits_of(talk.session)
        rule = kept.rule(int(answer.split_ids[0]))
        self.equations.add_sides(rows[nodes[node]], rule.feature, rule.threshold, rule.default_left)
        yield
        left = from_bits(answer.left_rows, len(nodes[node]))
        return None if left.all() or not left.any() else (True, left)

    def _predict(self, model):
        r, X = self.random, self.equations.X
        splits = self.handler.splits_of(model)
        if splits is None or not len(splits):
            return
        rows = np.sort(r.permutation(len(X))[: int(r.integers(1, len(X)))])
        talk = Talk(self.handler.handle)
        talk.ask(predicted(model, rows))
        if isinstance(talk.ask(route(len(rows), range(len(splits)))), messages.Refusal):
            return
        for k in range(len(splits)):
            rule = splits.rule(k)
            self.equations.add_sides(rows, rule.feature, rule.threshold, rule.default_left)
        yield
