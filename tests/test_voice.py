"""Docstrings and pages are written in plain technical English, measured by counts per 10,000 words.

A budget, not a ban: a habit of phrasing is what tires a reader, a single use is none.
"""

import ast
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("lgb_dp", "xgb_fed", "plugins", "patches")

# Uses per 10,000 words, of docstrings and of pages. The docstrings of scikit-learn and of dp_accounting have
# none of the clauses and 0 to 0.3 of the pronouns. Turns that remain are mostly "each of which" in proofs.
# The other bounds are as tight as the texts allow: lower them with the texts.
BUDGET = {
    "clauses": (0.3, 0.4),
    "pronouns": (0.3, 0.3),
    "turns": (0.8, 0.8),
    "absent": (1.4, 0.4),
    "relatives": (14.0, 4.5),
    "pointers": (6.3, 2.7),
}
MAX_WORDS = 38
PART = re.compile(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ")
END = re.compile(r"(?<=[.!?])[)*_\"]*\s+(?=[A-Z*\[`\"(])")
DESCRIBED = re.compile(r"^(\S.*)\n(?= {4})", re.MULTILINE)
UNDERLINED = re.compile(r"^.*\n *[-=~]{3,}$", re.MULTILINE)
SENTENCE = re.compile(r"(?:\A|(?<=[.!?:])\s+|\n\s*\n\s*|\n\s*[-*]\s+)[*_\"'(]*(?=[A-Z])")
USES = {
    "clauses": re.compile(r"\A(?:What|Whatever|Whoever|Who)\b(?!.*\?\W*\Z)", re.DOTALL),
    "pronouns": re.compile(r"\b(?:nobody|everybody|whoever|anybody)\b", re.IGNORECASE),
    "turns": re.compile(
        r"\b(?:is told|are told|of which|of whom)\b"
        r"|\ba training(?! (?:run|set|row|round|loss|step|task|session))\b",
        re.IGNORECASE,
    ),
    "absent": re.compile(r"\bthere (?:is|are|was|were) none\b", re.IGNORECASE),
    "relatives": re.compile(
        r"\b(?:of|from|for|by|with|to|on|in|than|as|and|or|at|about|into|beside|after|before) what\b",
        re.IGNORECASE,
    ),
    "pointers": re.compile(r"\bthose (?:that|who|which|whose)\b", re.IGNORECASE),
}


def docstrings(tree):
    """All texts that stand for themselves in a parsed module: docstrings, also those below constants."""
    statements = [tree]
    for statement in statements:
        statements += getattr(statement, "body", ())
    constants = [statement.value for statement in statements if isinstance(statement, ast.Expr)]
    values = [constant.value for constant in constants if isinstance(constant, ast.Constant)]
    texts = [inspect.cleandoc(value) for value in values if isinstance(value, str)]
    return [UNDERLINED.sub("", DESCRIBED.sub(r"\1\n\n", text)) for text in texts]


def prose(text):
    """The paragraphs of a page, without code blocks, headings, tables, comments and directives' options."""
    text = re.sub(r"^([ \t]*)(```+).*?^\1\2[ \t]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return re.sub(r"^[ \t]*(?:#|\||:::|:[\w-]+:).*$", "", text, flags=re.MULTILINE)


def uses(texts):
    """The number of words, and for each habit the sentences that have it."""
    found = {name: [] for name in USES}
    words = 0
    for text in texts:
        words += len(re.findall(r"[A-Za-z][\w'-]*", text))
        for sentence in SENTENCE.split(text):
            for name, pattern in USES.items():
                found[name] += [sentence] * len(pattern.findall(sentence))
    return words, found


def texts_of_the_packages():
    """All docstrings of the package folders."""
    files = [path for folder in PACKAGES for path in sorted((ROOT / folder).rglob("*.py"))]
    return [text for path in files for text in docstrings(ast.parse(path.read_text(encoding="utf-8")))]


def pages():
    """All pages that are written by hand."""
    built = {ROOT / "docs" / name for name in ("_build", "auto_examples", "generated")}
    found = [path for path in sorted((ROOT / "docs").rglob("*.md")) if not built & set(path.parents)]
    return [*found, *sorted(ROOT.glob("*.md"))]


def texts_of_the_pages():
    """The prose of all pages that are written by hand."""
    return [prose(page.read_text(encoding="utf-8")) for page in pages()]


def check(texts, least_words, column):
    words, found = uses(texts)
    assert words > least_words
    for name, budgets in BUDGET.items():
        assert len(found[name]) * 10_000 <= budgets[column] * words, (name, found[name])


def test_docstrings_keep_to_the_budget():
    check(texts_of_the_packages(), 50_000, column=0)


def test_pages_keep_to_the_budget():
    check(texts_of_the_pages(), 10_000, column=1)


def too_long(text):
    """The sentences of a page that have more words than a reader keeps in mind."""
    plain = re.sub(r"\]\([^)]*\)|`", "", re.sub(r"`[^`]*`", "Code", text))
    found = [sentence for part in PART.split(plain) for sentence in END.split(part)]
    return [one for one in found if len(re.findall(r"[A-Za-z][\w'-]*", one)) > MAX_WORDS]


def test_sentences_of_pages_are_short():
    assert [one for page in texts_of_the_pages() for one in too_long(page)] == []
    assert too_long("Word " * 38 + ". " + "Word " * 39) == ["Word " * 39]


def test_cells_of_tables_are_short():
    lines = [line for page in pages() for line in page.read_text(encoding="utf-8").splitlines()]
    cells = [cell for line in lines if line.startswith("|") for cell in line.strip("|").split(" | ")]
    assert len(cells) > 1_000
    assert [cell for cell in cells if len(cell.split()) > 40] == []


def test_habits_are_counted():
    words, found = uses(
        [
            "What it does.\n\n- Whoever asks is told.",
            'A "What" of which nobody is sure. What now?',
            "None of what those that ask need, if there is none.",
        ]
    )
    assert words == 27
    assert {name: len(sentences) for name, sentences in found.items()} == {
        "clauses": 2,
        "pronouns": 2,
        "turns": 2,
        "absent": 1,
        "relatives": 1,
        "pointers": 1,
    }


def test_code_headings_and_types_are_no_sentences():
    page = prose("# What it is\n\n```\nWhat runs\n```\n| What | Who |\n\nPlain words.")
    assert uses([page])[0] == 2
    text = "Text.\n\n    What\n    ----\n    a : int\n        Who."
    code = f"X = 1\n'What X is.'\ndef f(a):\n    '''{text}'''\n"
    assert len(uses(docstrings(ast.parse(code)))[1]["clauses"]) == 2
