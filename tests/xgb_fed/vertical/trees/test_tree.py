import json

import numpy as np
import pytest

from xgb_fed.vertical.trees.tree import LEAF, ROOT, FederatedTree


def grown():
    tree = FederatedTree()
    eta = np.float32(0.3)
    tree.add(ROOT, np.array([0.1, -0.2], dtype=np.float32), eta, 12.5)
    left = tree.add(0, np.array([1, 2], dtype=np.float32), eta, 1 / 3)
    right = tree.add(0, np.array([-3, 1e-30], dtype=np.float32), eta, 12.0)
    assert (left, right) == (1, 2)
    tree.split(0, owner=2, split_id=7, left=left, right=right, loss_change=0.5)
    return tree


def test_leaves_and_splits():
    tree = grown()
    assert len(tree) == 3
    assert (tree.left, tree.right, tree.parent) == ([1, LEAF, LEAF], [2, LEAF, LEAF], [ROOT, 0, 0])
    assert (tree.owner, tree.split_id) == ([2, LEAF, LEAF], [7, LEAF, LEAF])
    assert tree.loss_change == [0.5, 0.0, 0.0]
    # float32 steps, as XGBoost takes them; a split adds nothing, its weight stays.
    weights = np.array([[0.1, -0.2], [1, 2], [-3, 1e-30]], dtype=np.float32)
    np.testing.assert_array_equal(np.array(tree.weight, dtype=np.float32), weights)
    values = tree.values()
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, [[0, 0], *(weights[1:] * np.float32(0.3))])
    assert tree.sum_hessian == [12.5, float(np.float32(1 / 3)), 12.0]


def test_json_brings_a_tree_back_to_the_last_bit():
    tree = grown()
    again = FederatedTree(**json.loads(json.dumps(tree.to_dict())))
    assert again == tree
    assert again.values().tobytes() == tree.values().tobytes()


def test_trees_share_nothing():
    one, other = grown(), FederatedTree()
    assert len(other) == 0
    assert other.values().shape == (0,)
    one.to_dict()["left"] = []
    assert len(one) == 3


pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.errors.NotEncryptedWarning")


def test_importances(fitted, theirs):
    ours = fitted.export_booster()
    for kind in ("gain", "weight", "cover", "total_gain", "total_cover"):
        expected = theirs.get_booster().get_score(importance_type=kind)
        got = ours.get_score(importance_type=kind)
        assert got == pytest.approx(expected, rel=1e-4)
        own = {k: v for k, v in fitted.model_.importances(kind).items() if not k.startswith("bank")}
        assert own == pytest.approx({k: v for k, v in expected.items() if k in ("f0", "f1", "f2")}, rel=1e-4)
    with pytest.raises(ValueError, match="importance_type"):
        fitted.model_.importances("loss")
    total = theirs.get_booster().get_score(importance_type="total_gain")
    shares = [total.get(f"f{k}", 0) for k in range(3)] + [sum(total.get(f"f{k}", 0) for k in range(3, 6))]
    np.testing.assert_allclose(fitted.feature_importances_, np.array(shares) / sum(shares), rtol=1e-4)
