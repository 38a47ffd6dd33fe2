"""The architecture as tests: arrows agent -> words <- controller, no torch where a controller reads, small files."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomllib

import gpuburn

ROOT = Path(gpuburn.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MAY_IMPORT = {"": {""}, "agent": {"", "agent"}, "controller": {"", "controller"}}
# Packages beyond the standard library, and whose they are.
AGENTS = {"torch", "numpy", "pynvml", "yaml", "torchao", "aiohttp", "safetensors"}
CONTROLLERS = {
    "jinja2", "typer", "yaml", "pandas", "numpy", "scipy", "rich", "cryptography", "babel", "ansible_runner",
    "prometheus_client", "xlsxwriter", "pyarrow", "redfish", "requests",
    "urllib3",
}  # fmt: skip
THEIRS = {"": {"yaml"}, "agent": AGENTS, "controller": CONTROLLERS}
NAMELESS = ("util", "utils", "common", "helper", "helpers", "base", "manager", "misc", "core", "lib", "tools")
LONGEST_FILE, LONGEST_FUNCTION = 300, 60


def side(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 else ""


def imports(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            yield from ((f"{node.module}.{one.name}", node) for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.name, node) for one in node.names)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_module_imports_only_its_own_side_and_the_words(path: Path) -> None:
    for name, _ in imports(ast.parse(path.read_text())):
        top, *rest = name.split(".")
        if top == "gpuburn":
            other = rest[0] if rest and rest[0] in MAY_IMPORT else ""
            assert other in MAY_IMPORT[side(path)], name
        elif top not in sys.stdlib_module_names:
            assert top in THEIRS[side(path)], name


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_is_small_says_what_it_is_and_is_called_by_its_name(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module says what it is, and where it stops"
    assert len(text.splitlines()) <= LONGEST_FILE
    assert not set(path.with_suffix("").relative_to(ROOT).parts) & set(NAMELESS)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert (node.end_lineno or 0) - node.lineno + 1 <= LONGEST_FUNCTION, node.name


@pytest.mark.parametrize("path", [one for one in FILES if not side(one)], ids=name_of)
def test_the_words_know_no_clock_no_network_and_no_process(path: Path) -> None:
    banned = {"time", "socket", "subprocess", "urllib", "http", "threading", "multiprocessing", "random", "secrets"}
    for name, _ in imports(ast.parse(path.read_text())):
        assert name.split(".")[0] not in banned, name


PROVE = """
import sys
import tomllib

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "numpy", "pynvml", "pandas", "jinja2"}:
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Blocked())
import importlib, pkgutil
import gpuburn
from gpuburn import probe

for module in pkgutil.iter_modules(gpuburn.__path__):
    if module.name not in ("agent", "controller"):
        importlib.import_module(f"gpuburn.{module.name}")
found = probe.discover()
from gpuburn import planning
planning.make(planning.Request("r", "h", "rehearsal", "smoke", ("training", "inference"), count=3), "", 0.0)
for name in SUPERVISOR:
    importlib.import_module(f"gpuburn.agent.{name}")
print(*sorted(found))
"""
# What the supervisor is made of: it never touches CUDA or NVML.
SUPERVISOR = [
    "__main__",
    "run",
    "step",
    "launch",
    "guard",
    "foreign",
    "kernel_log",
    "processes",
    "cgroup",
    "state",
    "status",
    "seal",
]


def test_words_probes_and_supervisor_are_imported_without_torch() -> None:
    script = PROVE.replace("SUPERVISOR", repr(SUPERVISOR))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT.parent, timeout=120)
    assert done.returncode == 0, done.stderr
    files = {path.stem for path in (ROOT / "agent" / "probes").glob("*.py")} - {"__init__"}
    assert set(done.stdout.split()) == files, "one probe a file, each under the name of its file"


def test_nothing_happens_at_import() -> None:
    """A module's top level declares; it opens, runs and prints nothing."""
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                called = ast.unparse(node.value.func)
                assert called.endswith((".add_typer", "setdefault")), f"{name_of(path)}:{node.lineno}: {called}"


def test_a_broad_except_stands_only_at_a_border() -> None:
    found = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler):
                caught = ast.unparse(node.type) if node.type else "everything"
                if caught in ("everything", "Exception", "BaseException"):
                    found.append(name_of(path))
    assert {one for one in found if not one.startswith("agent/")} <= {"controller/__main__.py"}, found


DISTRIBUTIONS = {"yaml": "pyyaml", "ansible": "ansible-core", "pynvml": "nvidia-ml-py"}  # where the names differ


@pytest.mark.parametrize("extras", [("agent",), ("controller", "xlsx", "parquet", "bmc")], ids=lambda one: one[0])
def test_what_a_side_imports_it_declares(extras: tuple[str, ...]) -> None:
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    declared = {re.split(r"[^\w.-]", line)[0].lower() for line in itertools.chain(*lists)}
    used = {
        name.split(".")[0]
        for path in FILES
        if side(path) in ("", extras[0])
        for name, _ in imports(ast.parse(path.read_text()))
    } - {*sys.stdlib_module_names, "gpuburn"}
    assert {DISTRIBUTIONS.get(name, name.replace("_", "-")).lower() for name in used} <= declared
