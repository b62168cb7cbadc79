"""Records of grown trees."""

import json

from xgb_fed.vertical.trees.tree_record import TreeRecord


def test_records_of_earlier_releases_have_no_gradients():
    kept = {"tree": 2, "digests": {"bank": ["a"]}, "told": [], "restarts": []}
    assert TreeRecord(kept=json.loads(json.dumps(kept))).start(2, "anything") == []
