"""Outside auditors of our guarantees: code that others wrote, or a second and slow way, set against ours.

Each module is one auditor with one table, and runs in an environment of its own: ``make audits``.  `outcome`
runs them and keeps what they saw.  They may import everything; nothing imports them.
"""

import sys
from pathlib import Path

# Slow implementations that the tests have too.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
