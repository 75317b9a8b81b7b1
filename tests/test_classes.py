"""A class is abstract or final, and nothing concrete is overridden, in the whole package."""

import importlib
import inspect
import pkgutil
from dataclasses import is_dataclass
from enum import Enum
from functools import cached_property

from pydantic import BaseModel

import eigen_reptile

PACKAGE = "eigen_reptile"
GENERATED = {"__post_init__", "__module__", "__doc__", "__dict__", "__weakref__", "__orig_bases__", "__parameters__"}
"""What a class may have although a base class has it: `__post_init__` checks fields, Python makes the others."""
GENERATED_FOR_DATACLASSES = {
    "__init__",
    "__repr__",
    "__eq__",
    "__hash__",
    "__setattr__",
    "__delattr__",
    "__match_args__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__replace__",
}


def package_classes() -> list[type]:
    """All classes that are defined in modules of the package."""
    modules = [eigen_reptile]
    for found in pkgutil.walk_packages(eigen_reptile.__path__, f"{PACKAGE}."):
        if not found.name.endswith("__main__"):
            modules.append(importlib.import_module(found.name))
    return sorted(
        {
            one
            for module in modules
            for one in vars(module).values()
            if inspect.isclass(one) and one.__module__ == module.__name__
        },
        key=lambda one: (one.__module__, one.__qualname__),
    )


def is_method(member: object) -> bool:
    return callable(member) or isinstance(member, property | cached_property | staticmethod | classmethod)


def own_methods(one: type) -> dict[str, object]:
    """Methods and properties that the class itself defines, without those that Python or pydantic generates."""
    is_generated = is_dataclass(one) or issubclass(one, BaseModel)
    generated = GENERATED | GENERATED_FOR_DATACLASSES if is_generated else GENERATED
    return {name: member for name, member in vars(one).items() if is_method(member) and name not in generated}


def is_abstract_member(member: object) -> bool:
    return bool(getattr(member, "__isabstractmethod__", False))


def overridden(one: type) -> list[str]:
    """Concrete methods and properties of base classes in the package that a class overrides."""
    bases = [base for base in one.__mro__[1:] if base.__module__.startswith(PACKAGE)]
    return [
        f"{one.__module__}.{one.__qualname__}.{name} overrides {base.__qualname__}.{name}"
        for name in own_methods(one)
        for base in bases
        if name in own_methods(base) and not is_abstract_member(vars(base)[name])
    ]


def may_be_subclassed(one: type) -> bool:
    return inspect.isabstract(one) or issubclass(one, Enum) or bool(getattr(one, "_is_protocol", False))


def subclassed_within(classes: list[type]) -> list[str]:
    """Concrete classes of the package that others of the package inherit from."""
    return [
        f"{one.__module__}.{one.__qualname__} inherits from {base.__qualname__}, which is not abstract"
        for one in classes
        for base in one.__bases__
        if base.__module__.startswith(PACKAGE) and not may_be_subclassed(base)
    ]


def test_the_walk_finds_every_kind_of_class() -> None:
    names = {one.__qualname__ for one in package_classes()}
    assert {"Method", "EigenReptile", "MetaUpdate", "Network", "Job", "ConfigError", "_Block", "Experiment"} <= names


def test_nothing_concrete_is_overridden() -> None:
    found = [problem for one in package_classes() for problem in overridden(one)]
    assert not found, "\n".join(found)


def test_a_class_is_abstract_or_final() -> None:
    found = subclassed_within(package_classes())
    assert not found, "\n".join(found)


def test_overriding_would_be_noticed() -> None:
    """The checks themselves, on classes that pretend to be in the package."""

    class Base:
        def speak(self) -> str:
            return "base"

        @property
        def size(self) -> int:
            return 1

    class Derived(Base):
        def speak(self) -> str:
            return "derived"

        @property
        def size(self) -> int:
            return 2

    Base.__module__ = Derived.__module__ = f"{PACKAGE}.pretended"
    assert [problem.rpartition(".")[2] for problem in overridden(Derived)] == ["speak", "size"]
    assert len(subclassed_within([Base, Derived])) == 1
    assert overridden(Base) == []
