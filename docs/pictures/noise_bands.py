"""Draw effects with their bands, by running the example of them.

Run ``python docs/pictures/noise_bands.py`` after the example has changed.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
PICTURE = HERE / "noise-bands.svg"
EXAMPLE = HERE.parents[1] / "examples" / "explain_private.py"


def main() -> None:
    """Run the example; its first figure is the picture."""
    runpy.run_path(str(EXAMPLE))
    figure = plt.figure(plt.get_fignums()[0])
    figure.set_size_inches(10, 5)
    plt.rcParams["svg.hashsalt"] = PICTURE.name
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
