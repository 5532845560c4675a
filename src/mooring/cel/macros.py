"""The macros: calls that the parser replaces by loops and tests."""

from typing import Final

from mooring.cel.parser import ACCUMULATOR, Macro, Parser
from mooring.cel.syntax import Ident, Node, Select

_UNUSED: Final = "#unused"


def _has(parser: Parser, _: Node | None, args: list[Node]) -> Node:
    argument = args[0]
    if not isinstance(argument, Select):
        parser.fail(argument, "invalid argument to has() macro")
    return Select(parser.new_id(), argument.operand, argument.field, test_only=True)


def _variable(parser: Parser, node: Node, message: str = "argument must be a simple name") -> str:
    if not isinstance(node, Ident):
        parser.fail(node, message)
    if node.name in {ACCUMULATOR, "__result__"}:
        parser.fail(node, "iteration variable overwrites accumulator variable")
    return node.name


def _variables(parser: Parser, args: list[Node]) -> tuple[str, str]:
    first, second = _variable(parser, args[0]), _variable(parser, args[1])
    if first == second:
        parser.fail(args[1], f"duplicate variable name: {first}")
    return first, second


def _accumulator(parser: Parser) -> Node:
    return parser.ident(ACCUMULATOR)


def _all_loop(parser: Parser, over: Node, variables: tuple[str, str], body: Node) -> Node:
    return parser.comprehension(
        over,
        variables,
        ACCUMULATOR,
        parser.literal(True),
        parser.call("@not_strictly_false", _accumulator(parser)),
        parser.call("_&&_", _accumulator(parser), body),
        _accumulator(parser),
    )


def _exists_loop(parser: Parser, over: Node, variables: tuple[str, str], body: Node) -> Node:
    return parser.comprehension(
        over,
        variables,
        ACCUMULATOR,
        parser.literal(False),
        parser.call("@not_strictly_false", parser.call("!_", _accumulator(parser))),
        parser.call("_||_", _accumulator(parser), body),
        _accumulator(parser),
    )


def _exists_one_loop(parser: Parser, over: Node, variables: tuple[str, str], body: Node) -> Node:
    plus_one = parser.call("_+_", _accumulator(parser), parser.literal(1))
    return parser.comprehension(
        over,
        variables,
        ACCUMULATOR,
        parser.literal(0),
        parser.literal(True),
        parser.call("_?_:_", body, plus_one, _accumulator(parser)),
        parser.call("_==_", _accumulator(parser), parser.literal(1)),
    )


def _collect_loop(
    parser: Parser, over: Node, variables: tuple[str, str], init: Node, step: Node, condition: Node | None
) -> Node:
    if condition is not None:
        step = parser.call("_?_:_", condition, step, _accumulator(parser))
    return parser.comprehension(over, variables, ACCUMULATOR, init, parser.literal(True), step, _accumulator(parser))


def _append(parser: Parser, element: Node) -> Node:
    return parser.call("_+_", _accumulator(parser), parser.new_list(element))


def _target(target: Node | None) -> Node:
    assert target is not None
    return target


def _all(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    return _all_loop(parser, _target(target), (_variable(parser, args[0]), ""), args[1])


def _exists(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    return _exists_loop(parser, _target(target), (_variable(parser, args[0]), ""), args[1])


def _exists_one(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    return _exists_one_loop(parser, _target(target), (_variable(parser, args[0]), ""), args[1])


def _map(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    variable = _variable(parser, args[0], "argument is not an identifier")
    condition = args[1] if len(args) == 3 else None
    return _collect_loop(
        parser, _target(target), (variable, ""), parser.new_list(), _append(parser, args[-1]), condition
    )


def _filter(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    variable = _variable(parser, args[0], "argument is not an identifier")
    return _collect_loop(parser, _target(target), (variable, ""), parser.new_list(), _append(parser, args[0]), args[1])


def _all_two(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    return _all_loop(parser, _target(target), _variables(parser, args), args[2])


def _exists_two(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    return _exists_loop(parser, _target(target), _variables(parser, args), args[2])


def _exists_one_two(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    return _exists_one_loop(parser, _target(target), _variables(parser, args), args[2])


def _transform_list(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    condition = args[2] if len(args) == 4 else None
    step = _append(parser, args[-1])
    return _collect_loop(parser, _target(target), _variables(parser, args), parser.new_list(), step, condition)


def _transform_map(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    variables = _variables(parser, args)
    condition = args[2] if len(args) == 4 else None
    step = parser.call("cel.@mapInsert", _accumulator(parser), parser.ident(variables[0]), args[-1])
    return _collect_loop(parser, _target(target), variables, parser.new_map(), step, condition)


def _transform_map_entry(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    condition = args[2] if len(args) == 4 else None
    step = parser.call("cel.@mapInsert", _accumulator(parser), args[-1])
    return _collect_loop(parser, _target(target), _variables(parser, args), parser.new_map(), step, condition)


def _bound(parser: Parser, name: str, init: Node, result: Node) -> Node:
    """Return a loop over nothing, whose accumulator is the variable."""
    return parser.comprehension(
        parser.new_list(), (_UNUSED, ""), name, init, parser.literal(False), parser.ident(name), result
    )


def _bind(parser: Parser, target: Node | None, args: list[Node]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    if not isinstance(args[0], Ident):
        parser.fail(args[0], "cel.bind() variable names must be simple identifiers")
    return _bound(parser, args[0].name, args[1], args[2])


def _opt_map(parser: Parser, target: Node | None, args: list[Node], *, flat: bool = False) -> Node:
    if not isinstance(args[0], Ident):
        parser.fail(args[0], f"{'optFlatMap' if flat else 'optMap'}() variable name must be a simple identifier")
    value = parser.member_call("value", parser.copy(_target(target)))
    result = _bound(parser, args[0].name, value, args[1])
    return parser.call(
        "_?_:_",
        parser.member_call("hasValue", _target(target)),
        result if flat else parser.call("optional.of", result),
        parser.call("optional.none"),
    )


def _opt_flat_map(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    return _opt_map(parser, target, args, flat=True)


def _sort_by(parser: Parser, target: Node | None, args: list[Node]) -> Node:
    name = "@__sortBy_input__"
    keys = _map(parser, parser.ident(name), args)
    return _bound(parser, name, _target(target), parser.member_call("@sortByAssociatedKeys", parser.ident(name), keys))


#: By name, number of arguments, and whether they are methods.
STANDARD: Final[dict[tuple[str, int, bool], Macro]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all,
    ("exists", 2, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
}
OPTIONAL: Final[dict[tuple[str, int, bool], Macro]] = {
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
}
TWO_VARIABLES: Final[dict[tuple[str, int, bool], Macro]] = {
    ("all", 3, True): _all_two,
    ("exists", 3, True): _exists_two,
    ("existsOne", 3, True): _exists_one_two,
    ("exists_one", 3, True): _exists_one_two,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
}
LISTS: Final[dict[tuple[str, int, bool], Macro]] = {("sortBy", 2, True): _sort_by}
BINDINGS: Final[dict[tuple[str, int, bool], Macro]] = {("bind", 3, True): _bind}
