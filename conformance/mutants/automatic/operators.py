"""The standard operators of mutation testing over one source file.

Rules
* A mutation replaces the text of one node; everything else of the file stays, byte for byte.
* Comparisons (border and negation), constants (± 1, True and False), negated conditions, ``and`` and ``or``,
  arithmetic, dropped statements, skipped branches, functions that return at once.
* Not mutated, because nothing that a broker does hangs on it: annotations, documentation, assertions, decorators, what
  is there for types only, ``__repr__``, texts, and what only logs: statements that hand a line to the log, and
  conditions of nothing but such statements.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from msgspec import Struct

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}

#: Methods that hand a line to the log, and the lines' classes.
LOGGING = ("log", "_log")
LINES = ("Logged", "Log")


class Edit(Struct, eq=False):
    """One node's text and what stands there instead, and the statement that the node is in."""

    operator: str
    node: ast.expr | ast.stmt
    text: str
    statement: ast.stmt
    #: Qualified name; "" for what is executed when the file is imported.
    function: str


def edits(tree: ast.Module) -> list[Edit]:
    """All mutations of a file, in the order of their places."""
    found = list(_of_block(tree.body, "", inside=False))
    return sorted(found, key=lambda edit: (edit.node.lineno, edit.node.col_offset, edit.operator, edit.text))


def _of_block(body: Iterable[ast.stmt], name: str, *, inside: bool) -> Iterator[Edit]:
    for statement in body:
        yield from _of_statement(statement, name, inside=inside)


def _of_statement(statement: ast.stmt, name: str, *, inside: bool) -> Iterator[Edit]:
    if isinstance(statement, ast.ClassDef):
        yield from _of_block(statement.body, f"{name}{statement.name}.", inside=False)
    elif isinstance(statement, ast.FunctionDef):
        if statement.name != "__repr__":
            yield from _of_function(statement, name, inside=inside)
    elif not _is_aside(statement):
        function = name.rstrip(".") if inside else ""
        for operator, node, text in _of_one(statement, inside=inside):
            yield Edit(operator, node, text, statement, function)
        for field in ("body", "orelse", "finalbody"):
            yield from _of_block(getattr(statement, field, ()), name, inside=inside)
        for handler in getattr(statement, "handlers", ()):
            yield from _of_block(handler.body, name, inside=inside)
        for case in getattr(statement, "cases", ()):
            yield from _of_block(case.body, name, inside=inside)


def _of_function(function: ast.FunctionDef, name: str, *, inside: bool) -> Iterator[Edit]:
    arguments = function.args
    for default in [*arguments.defaults, *(one for one in arguments.kw_defaults if one is not None)]:
        for operator, node, text in _of_expression(default):
            yield Edit(operator, node, text, function, name.rstrip(".") if inside else "")
    qualified = f"{name}{function.name}"
    body = [one for one in function.body if not _is_text(one)]
    returns = ast.unparse(function.returns) if function.returns is not None else ""
    if len(body) > 1 and returns == "None" and _is_simple(body[0]):
        yield Edit("return at once", body[0], f"return; {ast.unparse(body[0])}", body[0], qualified)
    yield from _of_block(function.body, f"{qualified}.", inside=True)


def _is_simple(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign) and "\n" not in ast.unparse(
        statement
    )


def _is_aside(statement: ast.stmt) -> bool:
    """Whether nothing hangs on it."""
    typing = isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
    plain = isinstance(statement, ast.Assert | ast.Import | ast.ImportFrom | ast.Pass)
    return typing or plain or _is_text(statement) or _only_logs(statement)


def _only_logs(statement: ast.stmt) -> bool:
    """Whether it does nothing but hand lines to the log: ``effects.append(Logged(...))``, ``self.log(...)``."""
    if isinstance(statement, ast.If):
        return not statement.orelse and all(map(_only_logs, statement.body)) and not _calls(statement.test)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in LOGGING:
        return True
    first = call.args[0] if len(call.args) == 1 else None
    made = first.func if isinstance(first, ast.Call) else None
    return call.func.attr == "append" and isinstance(made, ast.Name) and made.id in LINES


def _calls(test: ast.expr) -> bool:
    """Whether anything is called in it, which may do more than look."""
    return any(isinstance(node, ast.Call) for node in ast.walk(test))


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


Change = tuple[str, ast.expr | ast.stmt, str]


def _of_one(statement: ast.stmt, *, inside: bool) -> Iterator[Change]:
    """A statement's own mutations, without those of the statements in it."""
    if inside and _can_go(statement):
        yield "statement dropped", statement, "pass"
    if isinstance(statement, ast.AugAssign) and type(statement.op) in _ARITHMETIC:
        changed = ast.AugAssign(statement.target, _ARITHMETIC[type(statement.op)](), statement.value)
        yield "arithmetic", statement, ast.unparse(changed)
    if isinstance(statement, ast.If | ast.While):
        yield from _of_condition(statement.test)
        yield "branch skipped", statement.test, "False"
    for field, value in ast.iter_fields(statement):
        if field not in {"body", "orelse", "finalbody", "handlers", "cases", "annotation"}:
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    yield from _of_expression(part)


def _can_go(statement: ast.stmt) -> bool:
    """Whether leaving it out leaves a function whose names are all bound."""
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in statement.targets)
    if isinstance(statement, ast.AnnAssign):
        return isinstance(statement.target, ast.Attribute)
    return isinstance(statement, ast.Expr | ast.AugAssign | ast.Delete | ast.Raise | ast.Break | ast.Continue)


def _of_condition(test: ast.expr) -> Iterator[Change]:
    """Its negation, unless another operator gives it."""
    plain = isinstance(test, ast.Compare) and len(test.ops) == 1
    if not plain and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        yield "condition negated", test, f"not ({ast.unparse(test)})"


def _of_expression(root: ast.AST) -> Iterator[Change]:
    for node in _executed(root):
        if isinstance(node, ast.Compare):
            yield from _of_comparison(node)
        elif isinstance(node, ast.BoolOp):
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "and/or", node, ast.unparse(ast.BoolOp(other, node.values))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield "condition negated", node, f"({ast.unparse(node.operand)})"
        elif isinstance(node, ast.BinOp):
            yield from _of_arithmetic(node)
        elif isinstance(node, ast.Constant):
            yield from _of_constant(node)
        elif isinstance(node, ast.IfExp):
            yield from _of_condition(node.test)
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield from _of_condition(test)


def _executed(root: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression but those of texts."""
    yield root
    if not isinstance(root, ast.JoinedStr):
        for child in ast.iter_child_nodes(root):
            yield from _executed(child)


def _of_comparison(node: ast.Compare) -> Iterator[Change]:
    for index, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
            yield "comparison", node, ast.unparse(ast.Compare(node.left, ops, node.comparators))


def _of_arithmetic(node: ast.BinOp) -> Iterator[Change]:
    other = _ARITHMETIC.get(type(node.op))
    texts = any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )
    if other is not None and not texts:
        yield "arithmetic", node, ast.unparse(ast.BinOp(node.left, other(), node.right))


def _of_constant(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", node, str(not value)
    elif isinstance(value, int | float):
        yield "constant", node, str(value + 1)
        if value > 0:
            yield "constant", node, str(value - 1)
