"""Plans that are written and read again."""

import yaml

from veilboost.plans.plan import read_plan


def read(tmp_path, content):
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(content))
    return read_plan(path)
