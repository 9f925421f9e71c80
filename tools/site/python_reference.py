"""Makes the reference of the Python packages from their sources and stubs, without importing them."""

import ast
import builtins
import copy
import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path

# The public modules of each page: (page, title, what the page is for, modules).
PAGES = [
    ("pleiad", "pleiad", "Sessions, tables, collectives, snapshots and errors.", ["pleiad", "pleiad.spatial"]),
    (
        "nn",
        "pleiad.nn",
        "Nets, layers, training, data and pictures.",
        ["pleiad.nn", "pleiad.nn.init", "pleiad.nn.schedules", "pleiad.nn.plot"],
    ),
    ("torch", "pleiad.torch", "Training PyTorch models on many processes.", ["pleiad.torch"]),
    ("jax", "pleiad.jax", "Training JAX models on many processes.", ["pleiad.jax"]),
    ("keras", "pleiad.keras", "Training Keras 3 models on many processes.", ["pleiad.keras"]),
    ("multiverso", "multiverso", "Multiverso's Python binding.", ["multiverso"]),
    ("singa", "singa", "SINGA's Python interface.", ["singa.model", "singa.layer", "singa.driver"]),
    ("neon", "neon", "The classes of neon's experiments.", ["neon", "neon.layers", "neon.models", "neon.datasets"]),
]
SECTIONS = {"Args:": "param", "Attributes:": "ivar", "Raises:": "raises", "Returns:": "returns"}


@dataclass
class Module:
    """A module or a stub: its docstring and what its top level binds."""

    name: str
    package: bool
    text: str
    bound: "dict[str, ast.AST]" = field(default_factory=dict)
    public: "list[str] | None" = None


class Sources:
    """The modules of the Python packages, each read once."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.modules = {}
        self.described = {}  # (module, name) of a definition: its name on the site
        for _, _, _, modules in PAGES:
            for name in modules:
                for each in public_names(self.module(name)):
                    holder, node = self.resolve(self.module(name), each)
                    if isinstance(node, ast.ClassDef):
                        self.described.setdefault((holder.name, node.name), f"{name}.{each}")

    def names_in(self, module):
        """Returns the function that maps a name of a module to its full name, for classes that on the site."""

        def names(name):
            holder, node = self.resolve(module, name)
            if isinstance(node, ast.ClassDef):
                return self.described.get((holder.name, node.name), f"{holder.name}.{node.name}")
            bound = module.bound.get(name)
            return bound.name.replace(":", ".") if isinstance(bound, ast.alias) else name

        return names

    def module(self, name):
        """Returns a module, or None if there is no such file."""
        if name not in self.modules:
            self.modules[name] = self._read(name)
        return self.modules[name]

    def _read(self, name):
        base = self.folder.joinpath(*name.split("."))
        for path in (base / "__init__.py", base.with_suffix(".py"), base.with_suffix(".pyi")):
            if path.is_file():
                break
        else:
            return None
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = Module(name, path.name == "__init__.py", ast.get_docstring(tree) or "")
        for node in tree.body:
            for each in node.body if isinstance(node, ast.Try | ast.If) else [node]:
                self._bind(found, each)
        return found

    @staticmethod
    def _bind(module, node):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if not any("overload" in ast.unparse(each) for each in node.decorator_list):
                module.bound[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module.bound[alias.asname or alias.name] = ast.alias(name=f"{node.module}:{alias.name}")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name == "__all__":
                module.public = list(ast.literal_eval(node.value))
            module.bound[name] = node

    def resolve(self, module, name):
        """Returns (module, node) of what a name of a module means; the node is None for a module."""
        node = module.bound.get(name) if module else None
        if isinstance(node, ast.alias):
            origin, _, original = node.name.partition(":")
            if origin != module.name and self.module(origin) and original in self.module(origin).bound:
                return self.resolve(self.module(origin), original)
            return self.module(f"{origin}.{original}"), None
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            if isinstance(node.value.value, ast.Name):
                holder, inner = self.resolve(module, node.value.value.id)
                if holder and inner is None and node.value.attr in holder.bound:
                    return self.resolve(holder, node.value.attr)
        return module, node

    def bases(self, module, node):
        """Returns (name, module, node) of each base class; module and node are None for a class of another package."""
        found = []
        for base in node.bases:
            name = ast.unparse(base).split("[")[0]
            holder, inner = self.resolve(module, name) if "." not in name else (None, None)
            found.append((name, holder, inner) if isinstance(inner, ast.ClassDef) else (name, None, None))
        return found

    def is_exception(self, module, node):
        """Returns whether a class derives from an exception."""
        for name, holder, inner in self.bases(module, node):
            known = getattr(builtins, name, None)
            if inner is None and isinstance(known, type) and issubclass(known, BaseException):
                return True
            if inner is not None and self.is_exception(holder, inner):
                return True
        return False

    def members(self, module, node):
        """Returns {name: node} of the members of a class, with those of its private bases."""
        found = {}
        for name, holder, inner in reversed(self.bases(module, node)):
            if inner is not None and name.startswith("_"):
                found.update(self.members(holder, inner))
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                decorators = [ast.unparse(decorator) for decorator in each.decorator_list]
                if not any(word.endswith((".setter", ".deleter")) or "overload" in word for word in decorators):
                    found[each.name] = each
            elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                found[each.target.id] = each
        return found


def unquoted(node, names):
    """Returns an annotation without the quotes around its text or parts of it. `names` maps names to those of the site."""

    class Unquote(ast.NodeTransformer):
        def visit_Name(self, name):
            return ast.copy_location(ast.Name(names(name.id)), name)

        def visit_Constant(self, constant):
            if isinstance(constant.value, str):
                return self.visit(ast.parse(constant.value, mode="eval").body)
            return constant

        def visit_Subscript(self, subscript):
            return subscript if ast.unparse(subscript.value) == "Literal" else self.generic_visit(subscript)

    return Unquote().visit(copy.deepcopy(node))


def signature(node, names, method=False):
    """Returns the arguments and the result of a function, without self or cls."""
    arguments = copy.deepcopy(node.args)
    positional = arguments.posonlyargs or arguments.args
    if method and positional and "staticmethod" not in [ast.unparse(each) for each in node.decorator_list]:
        del positional[0]
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument is not None and argument.annotation is not None:
            argument.annotation = unquoted(argument.annotation, names)
    result = f" -> {ast.unparse(unquoted(node.returns, names))}" if node.returns is not None else ""
    return f"({ast.unparse(arguments)}){result}"


def markdown(text):
    """Returns a docstring as Markdown: sections become fields, and examples become blocks of code."""
    lines, out, position = inspect.cleandoc(text).splitlines(), [], 0
    while position < len(lines):
        line = lines[position]
        if line.strip() in SECTIONS and position + 1 < len(lines) and lines[position + 1].startswith("    "):
            position += 1
            body = []
            while position < len(lines) and (lines[position].startswith("    ") or not lines[position].strip()):
                body.append(lines[position])
                position += 1
            out += ["", *fields(SECTIONS[line.strip()], body), ""]
        elif line.startswith(">>> "):
            out += ["", "```pycon"]
            while position < len(lines) and lines[position].strip():
                out.append(lines[position])
                position += 1
            out += ["```", ""]
        elif line.startswith("    ") and (not out or not out[-1].strip()):
            out += ["", "```python"]
            while position < len(lines) and (lines[position].startswith("    ") or not lines[position].strip()):
                out.append(lines[position].removeprefix("    "))
                position += 1
            while not out[-1].strip():
                out.pop()
            out += ["```", ""]
        else:
            out.append(re.sub(r"<(?=\S)", r"\\<", line) if "`" not in line else line)
            position += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def fields(kind, body):
    """Returns the entries of a section as fields, one line each."""
    entries = []
    for line in inspect.cleandoc("\n".join(["", *body])).splitlines():
        if not line.strip():
            continue
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        else:
            entries.append(line.strip())
    if kind == "returns":
        return [":returns: " + " ".join(entries)]
    lines = []
    for entry in entries:
        name, colon, said = entry.partition(": ")
        lines.append(f":{kind} {name.lstrip('*')}: {said}" if colon else f":{kind} {entry.rstrip(':')}:")
    return lines


def directive(kind, head, options, body, depth):
    """Returns a MyST directive. The fence of an outer one is longer than those inside it."""
    fence = ":" * (9 - 2 * depth)
    lines = [f"{fence}{{py:{kind}}} {head}", *(f":{name}: {value}".rstrip() for name, value in options.items())]
    return "\n".join([*lines, "", body, fence, ""])


def function_text(name, node, names, depth, method=False):
    decorators = [ast.unparse(each) for each in node.decorator_list]
    text = markdown(ast.get_docstring(node) or "")
    if "property" in decorators or "cached_property" in decorators or "functools.cached_property" in decorators:
        options = {"type": ast.unparse(unquoted(node.returns, names))} if node.returns is not None else {}
        return directive("property", name, options, text, depth)
    options = {kind: "" for kind in ("classmethod", "staticmethod") if kind in decorators}
    return directive("method" if method else "function", name + signature(node, names, method), options, text, depth)


def class_text(sources, name, module, node):
    members, names = sources.members(module, node), sources.names_in(module)
    decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
    head = name
    if "__init__" in members:
        made = signature(members["__init__"], names, method=True).removesuffix(" -> None")
        head += made if "_core." not in made and "_nn." not in made else ""  # other functions make these objects
    elif "dataclass" in decorators:
        given = []
        for each in members.values():
            if isinstance(each, ast.AnnAssign):
                default = f" = {ast.unparse(each.value)}" if each.value is not None else ""
                given.append(f"{each.target.id}: {ast.unparse(unquoted(each.annotation, names))}{default}")
        head += f"({', '.join(given)})"
    public = [base for base, _, _ in sources.bases(module, node) if not base.startswith("_")]
    parts = [f"Bases: {', '.join(f'`{base}`' for base in public)}"] if public else []
    parts.append(markdown(ast.get_docstring(node) or ""))
    described = set(re.findall(r"^:ivar (\w+):", parts[-1], re.MULTILINE))
    for member, each in members.items():
        if member.startswith("_") or member in described:
            continue
        if isinstance(each, ast.AnnAssign):
            parts.append(
                directive("attribute", member, {"type": ast.unparse(unquoted(each.annotation, names))}, "", 1)
                if "dataclass" not in decorators
                else ""
            )
        elif ast.get_docstring(each):
            parts.append(function_text(member, each, names, 1, method=True))
    kind = "exception" if sources.is_exception(module, node) else "class"
    return directive(kind, head, {}, "\n\n".join(part for part in parts if part), 0)


def public_names(module):
    """Returns the names that a module makes public, in the order of the alphabet."""
    if module.public is not None:
        names = module.public
    else:
        kinds = ast.FunctionDef | ast.ClassDef
        names = [name for name, node in module.bound.items() if not name.startswith("_") and isinstance(node, kinds)]
    return sorted((name for name in names if not name.startswith("__")), key=str.lower)


def module_text(sources, name):
    module = sources.module(name)
    parts = [f"## {name}", directive("module", name, {}, "", 0), markdown(module.text)]
    for each in public_names(module):
        holder, node = sources.resolve(module, each)
        if isinstance(node, ast.ClassDef):
            parts.append(class_text(sources, each, holder, node))
        elif isinstance(node, ast.FunctionDef):
            parts.append(function_text(each, node, sources.names_in(holder), 0))
    return "\n\n".join(parts)


def pages(root):
    """Returns {name of a page, without suffix: its text}."""
    sources = Sources(Path(root) / "bindings" / "python")
    made = {}
    for page, title, purpose, modules in PAGES:
        body = "\n\n".join(module_text(sources, module) for module in modules)
        made[f"python_{page}"] = f"# {title}\n\n{purpose}\n\n{body}\n"
    return made
