"""Read classes and constants from the package's source code, because importing it would load torch (1.4 s)."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent.parent
NAME = PACKAGE.name
CLASS = re.compile(r"^class (\w+)(?:\(([^)]*)\))?:", re.MULTILINE)


class Class(NamedTuple):
    """A class of the package."""

    name: str
    module: str
    """Full name of the module that defines it."""

    @property
    def node(self) -> ast.ClassDef:
        return next(
            node for node in syntax_tree(self.module).body if isinstance(node, ast.ClassDef) and node.name == self.name
        )

    @property
    def about(self) -> str:
        """The first line of the docstring."""
        return (ast.get_docstring(self.node) or "").partition("\n")[0]


class Field(NamedTuple):
    """An annotated field of a class."""

    name: str
    annotation: ast.expr
    default: ast.expr | None
    about: str
    """The docstring under the field."""
    module: str
    """The module that defines the field, where the names in its annotation and default are looked up."""


class Definition(NamedTuple):
    """What a name in a module stands for."""

    node: ast.ClassDef | ast.expr
    """A class, or the value of a module-level constant or type alias."""
    module: str


@cache
def syntax_tree(module: str) -> ast.Module:
    """The syntax tree of one of the package's modules; empty if there is no such module."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8") if file.is_file() else "")


@cache
def _classes_by_name() -> dict[str, list[tuple[Class, list[str]]]]:
    """Every class of the package, by name, with the names of its bases. Parsing all files would be too slow."""
    found: dict[str, list[tuple[Class, list[str]]]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        module = ".".join((NAME, *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for name, bases in CLASS.findall(file.read_text(encoding="utf-8")):
            found.setdefault(name, []).append((Class(name, module), re.findall(r"\w+", bases)))
    return found


@cache
def definition(name: str, module: str) -> Definition | None:
    """The definition of a name that a module defines or imports from another module of the package."""
    for node in syntax_tree(module).body:
        match node:
            case ast.ClassDef() if node.name == name:
                return Definition(node, module)
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                return Definition(value, module)
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                return Definition(value, module)
            case ast.ImportFrom(module=str(origin)) if origin.split(".")[0] == NAME:
                for alias in node.names:
                    if name == (alias.asname or alias.name):
                        return definition(alias.name, origin)
    return None


def find_class(name: str, module: str) -> Class | None:
    """The class that a name in a module stands for, or None if it is no class of the package."""
    found = definition(name, module)
    if found is not None:
        return Class(found.node.name, found.module) if isinstance(found.node, ast.ClassDef) else None
    same_name = _classes_by_name().get(name, [])  # for imports that `definition` cannot follow
    return same_name[0][0] if same_name else None


def class_of(value: ast.expr, module: str) -> Class | None:
    """The class of `Class(...)`, `Class.constructor(...)` and `replace(..., field=...)`."""
    match value:
        case ast.Call(func=ast.Name(id="replace"), args=[original, *_]):
            return class_of(original, module)
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return find_class(name, module)
    return None


@cache
def subclasses(parent: Class) -> Sequence[Class]:
    """All direct and indirect subclasses, found by the name of the parent."""
    children = [child for known in _classes_by_name().values() for child, bases in known if parent.name in bases]
    return [found for child in children for found in (child, *subclasses(child))]


@cache
def fields(owner: Class) -> Mapping[str, Field]:
    """The annotated fields of a class by name, inherited ones first."""
    found: dict[str, Field] = {}
    for node in (part for base in owner.node.bases for part in ast.walk(base)):  # also Base in Base[T]
        if isinstance(node, ast.Name) and (parent := find_class(node.id, owner.module)):
            found |= fields(parent)
    body = owner.node.body
    for statement, below in zip(body, [*body[1:], None], strict=True):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=default):
                if not _is_class_variable(annotation):
                    found[name] = Field(name, _parse_if_quoted(annotation), default, _docstring(below), owner.module)
    return found


@cache
def is_config(owner: Class) -> bool:
    """Whether it is a dataclass or has one among its parents or subclasses."""
    if any("dataclass" in ast.unparse(decorator) for decorator in owner.node.decorator_list):
        return True
    return bool(fields(owner)) or any(is_config(child) for child in subclasses(owner))


def expand_annotation(annotation: ast.expr, module: str) -> Iterator[ast.AST | Class]:
    """Everything in an annotation: the nodes of its syntax tree, with type aliases expanded and classes found."""
    for node in ast.walk(annotation):
        yield node
        if isinstance(node, ast.Name):
            found = definition(node.id, module)
            if found is not None and isinstance(found.node, ast.expr):
                yield from expand_annotation(found.node, found.module)
            elif owner := find_class(node.id, module):
                yield owner


def _is_class_variable(annotation: ast.expr) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "ClassVar" for part in ast.walk(annotation))


def _parse_if_quoted(annotation: ast.expr) -> ast.expr:
    """An annotation that is written as a string is parsed."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def _docstring(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return " ".join(text.split())
    return ""
