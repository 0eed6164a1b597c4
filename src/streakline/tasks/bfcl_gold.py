"""BFCL's right answers as calls: Python source is parsed to names and literals, accepted values become one example.

Nothing here is evaluated: source text goes through `ast`, and only literals are taken from it.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Mapping, Sequence

from streakline.environment.simulators import to_plain
from streakline.errors import DataError
from streakline.tasks.bfcl_source import json_list
from streakline.types import JSON, ToolCall


def parse_call(source: str, *, functions: Mapping[str, Callable[..., object]]) -> ToolCall:
    """Parse one call written as Python source, such as `mv(source='a', destination='b')` or `sort('final_report.pdf')`.

    The signatures of `functions` (the method of each tool) name positional arguments. Anything but a call of a known
    tool with literal arguments is a `DataError`.
    """
    try:
        node = ast.parse(source, mode="eval").body
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise DataError(f"Expected a call such as `cd(folder='a')`, but got {source!r}")
        name = node.func.id
        if name not in functions:
            raise DataError(f"Expected a call of a known tool, but got {source!r}")
        names = list(inspect.signature(functions[name]).parameters)[1:]
        positional = dict(zip(names, node.args, strict=False))
        nodes = positional | {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        arguments = {key: to_plain(ast.literal_eval(value)) for key, value in nodes.items()}
    except (SyntaxError, ValueError, TypeError) as error:
        raise DataError(f"Expected a call with literal arguments, but got {source!r}: {error}") from error
    if len(nodes) != len(node.args) + len(node.keywords):
        raise DataError(f"Expected each argument of {name} once and by name, but got {source!r}")
    return ToolCall(name=name, arguments=arguments)


def example_call(accepted: Mapping[str, JSON], *, functions: Sequence[JSON], language: str) -> ToolCall:
    """Make one right call out of the values that are accepted, `{function: {parameter: [accepted values]}}`.

    Parameters that may be left out (`""` is among the values) are; of several accepted values the first is taken.
    `functions` are the source's descriptions, with the source's types. In `java` and `javascript` arguments are written
    as the language's literals. An answer of another form, or one whose function isn't described, is a `DataError`.
    """
    if len(accepted) != 1:
        raise DataError(f"Expected an answer to name one function, but got {sorted(accepted)}")
    [(name, values)] = accepted.items()
    parameters = _parameters(name, functions)
    properties, required = parameters.get("properties"), parameters.get("required")
    if not isinstance(values, dict) or not isinstance(properties, dict):
        raise DataError(f"Expected accepted values of {name} by parameter, but got {values!r}")
    needed = required if isinstance(required, list) else []
    arguments = {}
    for key, options in values.items():
        accepts = json_list(options, what=f"the accepted values of {name}.{key}")
        choices = [option for option in accepts if option != ""]
        if not choices or ("" in accepts and key not in needed):
            continue
        schema = properties.get(key)
        value = _plain_example(choices[0], schema if isinstance(schema, dict) else {})
        arguments[key] = value if language == "python" else _literal(value, schema, language)
    return ToolCall(name=name, arguments=arguments)


def _parameters(name: str, functions: Sequence[JSON]) -> Mapping[str, JSON]:
    for function in functions:
        if isinstance(function, dict) and function.get("name") == name:
            parameters = function.get("parameters")
            return parameters if isinstance(parameters, dict) else {}
    raise DataError(f"Expected an answer to name a described function, but got {name!r}")


def _plain_example(value: JSON, schema: Mapping[str, JSON]) -> JSON:
    """Pick values inside dictionaries too, where each key holds a list of accepted values."""
    items = schema.get("items")
    if isinstance(value, dict):
        lists = {key: options for key, options in value.items() if isinstance(options, list) and "" not in options}
        return {key: options[0] for key, options in lists.items() if options}
    if isinstance(value, list) and isinstance(items, dict):
        return [_plain_example(item, items) if isinstance(item, dict) else item for item in value]
    return value


def _literal(value: JSON, schema: JSON, language: str) -> str:
    if isinstance(value, str):
        return value
    if language == "javascript":
        return json.dumps(value, ensure_ascii=False)
    fields = schema if isinstance(schema, dict) else {}
    kind, items = str(fields.get("type")), fields.get("items")
    return _java(value, kind=kind, inner=str(items.get("type")) if isinstance(items, dict) else "")


def _java(value: JSON, *, kind: str, inner: str = "") -> str:
    """Literal of the few Java types that the data uses, in the form that the checker reads back."""
    if isinstance(value, list):
        inside = ", ".join(_java(item, kind=inner) for item in value)
        return f"new ArrayList<>(Arrays.asList({inside}))" if kind == "ArrayList" else f"new Object[]{{{inside}}}"
    if isinstance(value, dict):
        puts = " ".join(f"put({json.dumps(key)}, {_java(item, kind='')});" for key, item in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    return json.dumps(value, ensure_ascii=False) + {"long": "L", "float": "f"}.get(kind, "")
