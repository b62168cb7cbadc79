"""Who may import whom, what is public, how long a module may be, and how many a folder may hold."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "lgb_dp": ROOT / "lgb_dp",
    "xgb_fed": ROOT / "xgb_fed",
    "veilboost": ROOT / "plugins" / "veilboost",
    "gbdt_parties": ROOT / "plugins" / "gbdt_parties",
    "gbdt_kernels": ROOT / "plugins" / "gbdt_kernels",
    "gbdt_hosts": ROOT / "patches" / "gbdt_hosts",
    "gbdt_commons": ROOT / "plugins" / "gbdt_commons",
}
OURS = {"gbdt_parties", "gbdt_hosts", "gbdt_kernels", "gbdt_commons"}
MAY_IMPORT = {
    "veilboost": {"lgb_dp", "xgb_fed", *OURS, "lightgbm", "xgboost"},
    "lgb_dp": {*OURS, "lightgbm"},
    "xgb_fed": {*OURS, "xgboost"},
    "gbdt_parties": {"gbdt_kernels", "gbdt_commons"},
    "gbdt_hosts": {"gbdt_kernels", "gbdt_commons", "lightgbm", "xgboost"},
    "gbdt_kernels": {"gbdt_commons"},
    "gbdt_commons": set(),
}
"""Of the packages of this repository, and of the host libraries."""

WATCHED = {*PACKAGES, "lightgbm", "xgboost", "plugins", "patches"}
STRANGERS = [
    ("lgb_dp.newton", "lgb_dp.dpboost"),
    ("lgb_dp.newton", "lgb_dp.mboost"),
    ("lgb_dp.dpboost", "lgb_dp.newton"),
    ("lgb_dp.dpboost", "lgb_dp.mboost"),
    ("lgb_dp.mboost", "lgb_dp.newton"),
    ("lgb_dp.mboost", "lgb_dp.dpboost"),
    ("xgb_fed.vertical", "xgb_fed.horizontal"),
    ("xgb_fed.horizontal", "xgb_fed.vertical"),
    ("xgb_fed.horizontal.exact", "xgb_fed.horizontal.simfl"),
    ("xgb_fed.horizontal.simfl", "xgb_fed.horizontal.exact"),
    ("xgb_fed.ciphers", "xgb_fed.vertical"),
    ("xgb_fed.ciphers", "xgb_fed.horizontal"),
    ("gbdt_hosts.dask", "gbdt_hosts.lightgbm"),
    ("gbdt_hosts.dask", "gbdt_hosts.xgboost"),
    ("gbdt_hosts.lightgbm", "gbdt_hosts.dask"),
    ("gbdt_hosts.lightgbm", "gbdt_hosts.xgboost"),
    ("gbdt_hosts.xgboost", "gbdt_hosts.lightgbm"),
    ("gbdt_kernels.trees", "gbdt_kernels.residues"),
    ("gbdt_kernels.residues", "gbdt_kernels.trees"),
    ("gbdt_kernels.draws", "gbdt_kernels.trees"),
    ("gbdt_kernels.trees", "gbdt_kernels.draws"),
    ("gbdt_kernels.transfers", "gbdt_kernels.trees"),
    ("gbdt_kernels.trees", "gbdt_kernels.transfers"),
    ("gbdt_parties.secure_sum", "gbdt_parties.two_party"),
    ("gbdt_parties.secure_sum", "gbdt_parties.run"),
    ("gbdt_parties.two_party", "gbdt_parties.run"),
]
"""Rooms of one package of which the first may not import the second."""

INNER = {
    "xgb_fed.vertical": {
        "protocol": set(),
        "trees": {"protocol"},
        "growing": {"protocol", "trees"},
        "passive": {"protocol", "trees"},
        "explaining": {"protocol", "trees"},
        "model": {"protocol", "trees", "explaining"},
        "training": {"protocol", "trees", "growing", "model"},
        "estimators": {"protocol", "explaining", "model", "training"},
    },
    "xgb_fed.horizontal": {
        "common": set(),
        "exact.rows": {"common"},
        "exact": {"common", "exact.rows"},
        "simfl": {"common"},
        "": {"common", "exact", "simfl"},
    },
    "lgb_dp.newton": {"releases": set(), "splits": {"", "releases"}, "": {"releases", "splits"}},
    "veilboost": {
        "plans": set(),
        "running": {"", "plans"},
        "serving": {"", "plans"},
        "dask": {"plans"},
        "flower": {"plans", "running"},
        "doctor": {"", "plans", "serving"},
        "pages": {"", "doctor"},
        "": {"plans"},
    },
}
"""Arrows between the folders of a room, all of them; "" are the modules beside the folders."""

MAX_ARROWS = {"xgb_fed.vertical": 20, "xgb_fed.horizontal": 12, "veilboost": 13}
MAX_LINES = 600
MAX_MODULES = 15
"""In one folder, not counting its `__init__`."""


def module_name(package, path):
    parts = path.relative_to(PACKAGES[package]).with_suffix("").parts
    return ".".join((package, *parts)).removesuffix(".__init__")


MODULES = {module_name(p, path): path for p, folder in PACKAGES.items() for path in folder.rglob("*.py")}


@cache
def imported_by(path):
    """Modules, and names in modules, that are imported anywhere in a file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


@cache
def imports(name):
    """Our own modules that a module imports; names in a module count as the module."""
    found = set()
    for target in imported_by(MODULES[name]):
        while target and target not in MODULES:
            target = target.rpartition(".")[0]
        found |= {target} if target else set()
    return found - {name}


def is_folder(name):
    return MODULES[name].name == "__init__.py"


def folder(name):
    """The folder that a module is in."""
    return name if is_folder(name) else name.rpartition(".")[0]


def room(name):
    """The folder below its package that a module is in; a package's own modules are rooms of their own."""
    return ".".join(name.split(".")[:2])


@cache
def innermost_room(name):
    """The folder that a module is in; the modules beside other folders are rooms of their own."""
    divided = any(is_folder(other) and other.startswith(folder(name) + ".") for other in MODULES)
    return name if divided else folder(name)


def inner_arrows(whole):
    """Which folder of a room imports which others, by their names in it."""
    arrows = {}
    for name in MODULES:
        if name.startswith(whole + ".") and name != whole:
            place = folder(name)[len(whole) + 1 :]
            found = {folder(t)[len(whole) + 1 :] for t in imports(name) if t.startswith(whole + ".")}
            arrows.setdefault(place, set()).update(found - {place})
    return arrows


def cycle(edges):
    """Some circle of arrows, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        path.append(node)
        for other in sorted(edges.get(node, ())):
            if circle := visit(other):
                return circle
        done.add(path.pop())
        return None

    return next(filter(None, map(visit, sorted(edges))), None)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_imports_only_what_it_may_know(package):
    files = list(PACKAGES[package].rglob("*.py"))
    assert files
    for path in files:
        roots = {name.split(".")[0] for name in imported_by(path)}
        assert roots & WATCHED <= MAY_IMPORT[package] | {package}, path


@pytest.mark.parametrize(("one", "other"), STRANGERS)
def test_rooms_that_do_not_know_each_other(one, other):
    assert any(name.startswith(other) for name in MODULES)
    for name in MODULES:
        if name.startswith(one + "."):
            assert not {target for target in imports(name) if target.startswith(other)}, name


def test_no_module_imports_itself_by_way_of_others():
    assert cycle({name: imports(name) for name in MODULES}) is None


@pytest.mark.parametrize("place", [room, innermost_room])
def test_arrows_between_rooms_point_one_way(place):
    edges = {}
    for name in MODULES:
        edges.setdefault(place(name), set()).update({place(t) for t in imports(name)} - {place(name)})
    # A package's own __init__ gathers its public names from every room.
    gathering = {*PACKAGES}
    edges = {one: others - gathering for one, others in edges.items() if one not in gathering}
    assert cycle(edges) is None


@pytest.mark.parametrize("whole", INNER)
def test_folders_of_one_room_import_only_what_the_table_says(whole):
    arrows = inner_arrows(whole)
    assert arrows == INNER[whole]
    assert len(arrows) <= 10
    assert sum(map(len, arrows.values())) <= MAX_ARROWS.get(whole, 10)


def test_a_module_beside_folders_is_a_room_of_its_own():
    assert innermost_room("lgb_dp.newton.settings") == "lgb_dp.newton.settings"
    assert innermost_room("lgb_dp.losses.loss") == "lgb_dp.losses"
    assert innermost_room("lgb_dp.data.bins") == "lgb_dp.data"
    assert room("lgb_dp.newton.splits.random") == "lgb_dp.newton"


def test_no_folder_holds_more_modules_than_a_reader_can_keep_in_mind():
    counts = Counter(folder(name) for name in MODULES if not is_folder(name))
    assert {place: n for place, n in counts.items() if n > MAX_MODULES} == {}


def test_every_folder_says_what_it_is():
    folders = [path for name, path in MODULES.items() if is_folder(name)]
    assert [path for path in folders if not ast.get_docstring(ast.parse(path.read_text()))] == []
    with_modules = {path.parent for path in MODULES.values()}
    assert with_modules == {path.parent for path in folders}


def test_a_circle_would_be_found():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


IMPORTING = """
import json, sys, types
def loaded(*names):
    return [name for name in names if name in sys.modules]
def not_of_all(package):
    modules = {name for name, value in vars(package).items() if isinstance(value, types.ModuleType)}
    names = {name for name in dir(package) if name[0] != "_"} - modules
    missing = [name for name in package.__all__ if not hasattr(package, name)]
    return sorted(names ^ (set(package.__all__) - {"__version__"})) + missing
said = {}
"""
IMPORTED = {
    "lgb_dp": """
import lgb_dp, lgb_dp.federated
extras = "matplotlib", "dask", "distributed", "grpc"
said["slow"] = loaded("lightgbm", "numba", "sklearn", "scipy", "pandas")
said["unknown"] = hasattr(lgb_dp, "no_such_name")
import lightgbm  # before 4.6 it loads all of them that are installed
hosts = loaded(*extras)
lgb_dp.DPLGBMClassifier, lgb_dp.NewtonBoost
said["extras"], said["grpc"] = loaded(*extras) == hosts, "grpc" in hosts
said["not of all"] = not_of_all(lgb_dp)
""",
    "xgb_fed": """
import xgb_fed
said["slow"] = loaded("numba", "gmpy2", "sklearn", "cryptography")
said["unknown"] = hasattr(xgb_fed, "no_such_name")
said["not of all"] = not_of_all(xgb_fed)
""",
}


@cache
def said_of_importing(package):
    """What a fresh process has loaded and found, at one step after another up to all of a package's names."""
    steps = f"{IMPORTING}{IMPORTED.get(package, '')}\nfrom {package} import *\n"
    code = f"{steps}said['modules'] = sorted(sys.modules)\nprint(json.dumps(said))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("package", "absent"),
    [
        (
            "lgb_dp",
            (
                "xgboost",
                "gbdt_kernels.residues",
                "gbdt_kernels.similarity",
                "grpc",
                "phe",
                "gbdt_parties.secure_sum",
            ),
        ),
        ("xgb_fed", ("lightgbm", "phe", "grpc", "nacl")),
        pytest.param("gbdt_hosts.lightgbm", ("xgboost",), marks=pytest.mark.slow),
        pytest.param("gbdt_hosts.xgboost", ("lightgbm",), marks=pytest.mark.slow),
    ],
)
def test_importing_one_package_does_not_load_what_it_has_no_use_for(package, absent):
    modules = said_of_importing(package)["modules"]
    assert package in modules
    assert [name for name in absent if name in modules] == []


@pytest.mark.parametrize("package", ["lgb_dp", "xgb_fed"])
def test_public_names_are_those_of_all(package):
    assert said_of_importing(package)["not of all"] == []


def test_importing_xgb_fed_waits_for_no_compiler():
    """Its names are loaded when they are first used, each from the module that defines it."""
    said = said_of_importing("xgb_fed")
    assert (said["slow"], said["unknown"]) == ([], False)


def test_importing_lgb_dp_waits_for_no_library():
    """Its names are loaded when they are first used; the private trainer needs no plots and no cluster."""
    said = said_of_importing("lgb_dp")
    assert (said["slow"], said["unknown"]) == ([], False)
    assert said["extras"]
    assert not said["grpc"]


def test_no_module_holds_more_than_one_concept_in_length():
    lengths = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}


def test_kernels_draw_no_randomness():
    for path in PACKAGES["gbdt_kernels"].rglob("*.py"):
        text = path.read_text()
        assert "np.random" not in text, path
        assert "urandom" not in text, path
        assert not {"secrets", "random"} & imported_by(path), path


def test_dask_is_for_the_rooms_of_that_name():
    """And importing the others does not load it."""
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            roots = {name.split(".")[0] for name in imported_by(path)}
            is_of_dask = "dask" in path.relative_to(folder).parts
            assert is_of_dask or not roots & {"dask", "distributed"}, (package, path)
    for name in MODULES:
        if ".dask" not in name:
            assert not {target for target in imports(name) if ".dask" in target}, name


def test_spark_is_for_the_room_of_that_name():
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            roots = {name.split(".")[0] for name in imported_by(path)}
            assert "spark" in path.relative_to(folder).parts or "pyspark" not in roots, (package, path)
    for name in MODULES:
        if ".spark" not in name:
            assert not {target for target in imports(name) if ".spark" in target}, name


def test_the_core_never_imports_phe():
    for package in set(PACKAGES) - {"xgb_fed"}:
        for path in PACKAGES[package].rglob("*.py"):
            assert "import phe" not in path.read_text(), path


PRIVATE_OF_LIGHTGBM = ("_ConfigAliases", "_LIB", "_safe_call", "_InnerPredictor", "._handle", "_log_info")
PRIVATE_OF_XGBOOST = (
    "xgboost._",
    "xgboost.core",
    "CallbackContainer",
    "_check_call",
    "save_config",
    "save_raw",
    "learner_model_param",
    "gradient_booster",
)
"""Undocumented names, and those of the model format."""


@pytest.mark.parametrize("package", ["lgb_dp", "xgb_fed", "veilboost"])
def test_only_gbdt_hosts_touches_private_names_of_the_host_libraries(package):
    names = "|".join(re.escape(name) for name in PRIVATE_OF_LIGHTGBM + PRIVATE_OF_XGBOOST)
    for path in PACKAGES[package].rglob("*.py"):
        assert not re.findall(rf"(?:{names})\b", path.read_text()), path


def test_names_that_are_private_to_hosts_are_used_there():
    """Else the search above would look for names that nobody uses."""
    text = "".join(path.read_text() for path in PACKAGES["gbdt_hosts"].glob("xgboost/*.py"))
    assert {"CallbackContainer", "save_config", "save_raw", "gradient_booster"} <= set(
        re.findall(r"\w+", text)
    )


def test_examples_import_public_packages_only():
    for path in (ROOT / "examples").glob("*.py"):
        targets = imported_by(path)
        roots = {name.split(".")[0] for name in targets}
        assert not roots & OURS, path
        deep = {t for t in targets if t.count(".") > 1 and t.split(".")[0] in PACKAGES}
        public = {"lgb_dp.dask", "lgb_dp.federated", "lgb_dp.spark", "lgb_dp.vertical"}
        assert {t.rpartition(".")[0] for t in deep} <= public, path


LATE = {
    # Attributes of LightGBM's own Dataset, of an argument parser, and of a fitted estimator.
    "Dataset": ["init_score", "pandas_categorical"],
    "PublicDataset": ["pandas_categorical"],
    "StandInDataset": ["feature_name"],
    "Parser": ["epilog"],
    "VerticalDPLGBMModel": ["_answers"],
}
"""Attributes that exist only after another method ran, by the name of their class."""


SHARED = {
    # Errors that a caller catches by the root of one package, and the public party of private training.
    *("ArgumentTypeError", "ClusterError", "FewPartiesWarning", "InvalidArgumentError", "PartitionError"),
    *("MissingDependencyError", "SchedulerLostError", "UnsupportedParameterError", "WorkersLostError"),
    "Party",
    # These remain to be named apart.
    *("Flights", "Record"),
}
"""Names of several classes."""


def test_each_class_has_a_name_of_its_own():
    trees = [ast.parse(path.read_text()) for path in MODULES.values()]
    counts = Counter(one.name for tree in trees for one in tree.body if isinstance(one, ast.ClassDef))
    assert {name for name, n in counts.items() if n > 1} <= SHARED


def touched_by(method):
    """The attributes of its object that a method sets, and those that it reads."""
    sets, reads, own = set(), set(), [one.arg for one in method.args.args[:1]]
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in own:
            (sets if isinstance(node.ctx, ast.Store) else reads).add(node.attr)
    return sets, reads


@cache
def classes():
    """Of every class its name, its bases, what exists after its constructor, and what is set later."""
    found = []
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                methods = {one.name: touched_by(one) for one in node.body if isinstance(one, ast.FunctionDef)}
                begin, first = {"__init__", "__post_init__", "__set_name__"} & methods.keys(), set()
                while begin - first:  # methods that a constructor calls belong to it
                    first |= begin
                    begin = {called for name in begin for called in methods[name][1]} & methods.keys()
                fields = [one for one in node.body if isinstance(one, (ast.Assign, ast.AnnAssign))]
                declared = {x.id for one in fields for x in ast.walk(one) if isinstance(x, ast.Name)}
                made = declared | methods.keys() | {x for name in first for x in methods[name][0]}
                later = {x for name in methods.keys() - first for x in methods[name][0]}
                bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
                found.append((node.name, bases, made, later))
    return found


def made_by(names, seen=frozenset()):
    """What exists after the constructors of some classes and of their bases."""
    made = set()
    for name, bases, own, _ in classes():
        if name in names - seen:
            made |= own | made_by(bases, seen | names)
    return made


def test_attributes_exist_after_the_constructor():
    """But for those of estimators that are fitted, of objects of hosts, and of `LATE`."""
    late = {}
    for name, bases, made, later in classes():
        found = {x for x in later - made - made_by(bases) if x[-1] != "_"}
        if found:
            late[name] = sorted(found)
    assert late == LATE
