"""The project's own rules, held against its files: floors, imports, no machine's name."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from source_tree import ROOT, project_files

PYTHON = ROOT / "hloop_plugin"
MODULES = [name for name in project_files() if re.match(r"hloop_plugin/.*\.py$", name)]
HLOOP = [name for name in MODULES if name.startswith("hloop_plugin/hloop/")]

# From the ground up; docs/design.md says why. A part imports from the floors below its own.
FLOORS = [
    {"hloop"},
    {"errors", "canonical", "portable", "formalpaths"},
    {"files", "locks"},
    {"trees"},
    {"plan"},
    {"devices", "schedule"},
    {"provenance"},
    {"run"},
    {"report"},
    {"cli"},
    {"__main__"},
]
HEAVY = {
    "altair",
    "cryptography",
    "jsonschema",
    "pandas",
    "pynvml",
    "rich",
    "securesystemslib",
    "vl_convert",
}


@cache
def tree(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text())


def imports(node: ast.AST) -> Iterator[str]:
    """The absolute names of the modules that are imported somewhere below a node."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative imports hide the floor"
            module = child.module or ""
            for alias in child.names:
                path = PYTHON / module.replace(".", "/") / alias.name
                # `from hloop.plan import identity` imports the module hloop.plan.identity.
                is_module = path.is_dir() or path.with_suffix(".py").exists()
                yield f"{module}.{alias.name}" if is_module else module


def imports_when_imported(module: ast.Module) -> Iterator[str]:
    """What importing a module imports: not what functions and type checkers do."""

    class Visitor(ast.NodeVisitor):
        def __init__(self) -> None:
            self.found: list[str] = []

        def visit_FunctionDef(self, _node: ast.FunctionDef) -> None: ...

        def visit_If(self, node: ast.If) -> None:
            if ast.unparse(node.test) != "TYPE_CHECKING":
                self.generic_visit(node)

        def visit_Import(self, node: ast.Import) -> None:
            self.found += imports(node)

        def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
            self.found += imports(node)

    visitor = Visitor()
    visitor.visit(module)
    return iter(visitor.found)


def part_of(module: str) -> str:
    """``plan`` for ``hloop.plan.load``, ``errors`` for ``hloop.errors``."""
    names = module.split(".")
    return names[min(1, len(names) - 1)]


def test_a_module_imports_from_the_floors_below_it():
    floor = {part: number for number, parts in enumerate(FLOORS) for part in parts}
    upwards = set()
    for name in HLOOP:
        module = name.removeprefix("hloop_plugin/").removesuffix(".py").replace("/", ".")
        own = part_of(module.removesuffix(".__init__"))
        for found in imports(tree(name)):
            part = part_of(found)
            if found.split(".")[0] == "hloop" and part != own and floor[part] >= floor[own]:
                upwards.add(f"{module} imports {found}")
    assert not upwards


def test_only_the_plugin_knows_snakemake():
    assert not {
        f"{name} imports {found}"
        for name in HLOOP
        for found in imports(tree(name))
        if found.startswith("snakemake")
    }


def test_heavy_libraries_are_imported_where_they_are_used():
    assert not {
        f"{name} imports {found}"
        for name in MODULES
        for found in imports_when_imported(tree(name))
        if found.split(".")[0] in HEAVY
    }


def test_only_the_command_line_knows_typer():
    assert not {
        name
        for name in MODULES
        for found in imports(tree(name))
        if found.split(".")[0] == "typer" and "/cli/" not in name
    }


def test_every_import_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["attest"]]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    distributions = packages_distributions()
    ours = {"hloop", "snakemake_executor_plugin_hloop"}
    assert not {
        f"{name} imports {top}"
        for name in MODULES
        for top in {found.split(".")[0] for found in imports(tree(name))}
        if top not in sys.stdlib_module_names | ours
        and declared.isdisjoint(map(canonicalize_name, distributions.get(top, ())))
    }


def test_a_module_says_what_it_is_for():
    assert not [name for name in MODULES if not ast.get_docstring(tree(name))]


def test_one_module_decides_what_a_job_sees_of_the_devices():
    """Nobody else writes CUDA_VISIBLE_DEVICES into an environment."""
    writers = {
        name
        for name in MODULES
        for node in ast.walk(tree(name))
        if writes(node, "CUDA_VISIBLE_DEVICES")
    }
    assert writers == {"hloop_plugin/hloop/devices/environment.py"}


def writes(node: ast.AST, variable: str) -> bool:
    """Whether a node sets a key of a mapping, or names a constant, that is this variable."""

    def is_it(part: ast.AST | None) -> bool:
        return isinstance(part, ast.Constant) and part.value == variable

    if isinstance(node, ast.Assign):
        return is_it(node.value) or any(
            isinstance(target, ast.Subscript) and is_it(target.slice) for target in node.targets
        )
    if isinstance(node, ast.Dict):
        return any(is_it(key) for key in node.keys)
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).split(".")[-1] in ("putenv", "setenv", "setdefault") and (
            any(is_it(argument) for argument in node.args)
        )
    return False


MACHINE = re.compile(rb"(?<![\w.])/(?:work|tmp/w|root|home/\w+)/")


def test_no_file_names_a_folder_of_the_machine_it_was_written_on():
    assert not [
        f"{name}: {match[0].decode()}"
        for name in project_files()
        if ROOT / name != Path(__file__)
        for match in MACHINE.finditer((ROOT / name).read_bytes())
    ]


def test_a_module_has_one_subject_and_so_few_lines():
    lines = {name: len((ROOT / name).read_text().splitlines()) for name in MODULES}
    assert not {name: count for name, count in lines.items() if count > 420}
