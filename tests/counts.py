"""How large the project is, and how its folders hang together: ``python tests/counts.py``."""

from collections import Counter

import test_architecture as architecture
import test_voice as voice


def modules_per_folder():
    """The number of modules in each folder, without its `__init__`."""
    return Counter(
        architecture.folder(name) for name in architecture.MODULES if not architecture.is_folder(name)
    )


def mirrored():
    """The modules that have a test of their name in the same folder below `tests/`."""
    tests = {
        path.relative_to(voice.ROOT / "tests").with_suffix("").as_posix()
        for path in (voice.ROOT / "tests").rglob("test_*.py")
    }
    names = [name.split(".") for name in architecture.MODULES if not architecture.is_folder(name)]
    return [name for name in names if "/".join([*name[:-1], f"test_{name[-1].lstrip('_')}"]) in tests]


def main():
    counts = modules_per_folder()
    for name, number in sorted(counts.items()):
        print(f"{number:4d} modules in {name}")
    for whole in architecture.INNER:
        arrows = architecture.inner_arrows(whole)
        print(f"{sum(map(len, arrows.values())):4d} arrows between {len(arrows)} folders of {whole}")
    lines = sum(path.read_text().count("\n") for path in architecture.MODULES.values())
    print(f"{lines:,} lines in {len(architecture.MODULES)} files of the packages")
    print(f"{len(mirrored())} of {sum(counts.values())} modules have a test of their name")
    print(f"{sum(len(path.read_text().split()) for path in voice.pages()):,} words of documentation")
    for kind, texts in (("docstrings", voice.texts_of_the_packages()), ("pages", voice.texts_of_the_pages())):
        words, found = voice.uses(texts)
        uses = ", ".join(f"{name} {len(found[name]) * 10_000 / words:.1f}" for name in found)
        print(f"uses per 10,000 words of {kind}: {uses}")


if __name__ == "__main__":
    main()
