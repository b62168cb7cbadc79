"""Decision paths of rows in a vertical model."""

from itertools import pairwise

import numpy as np
import pytest


def test_decision_paths_lead_to_the_leaves(explained):
    model, X, _, _, parties = explained
    paths = model.decision_paths(X[:, :3], parties)
    assert len(paths) == len(X)
    for row in (0, 17):
        steps = paths.of_row(row)
        values = [step.value[0] for step in steps if step.owner is None]
        margin = np.float32(model.base_margin[0]) + sum(values)
        assert margin == pytest.approx(model.predict(X[:, :3], parties, output_margin=True)[row], abs=1e-6)
        for step, after in pairwise(steps):
            if step.owner == "active":
                name, _, rest = step.condition.partition(" < ")
                threshold, _, missing = rest.partition(" or ")
                value = X[row, int(name[1:])]
                left = bool(missing) if np.isnan(value) else value < np.float32(threshold)
                assert left == step.goes_left
            elif step.owner is None:
                assert after.node == 0
                assert after.tree == step.tree + 1
            else:
                assert step.condition.startswith("split ")
        assert any(step.owner == "party 0" for step in steps)
        assert "leaf" in str(steps[-1])
        assert "f" in str(next(step for step in steps if step.owner == "active"))
    with pytest.raises(IndexError):
        paths.of_row(len(X))
