"""The description of the API (OpenAPI 3.1), from its table of operations and their types."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from postroom import __version__
from postroom.server.http.api.answers import Problem
from postroom.server.http.api.operation import PREFIX, Operation
from postroom.server.http.errors import PROBLEM_TYPE

OPENAPI_VERSION: Final = "3.1.0"
REFERENCE: Final = "#/components/schemas/{name}"
SECURITY: Final = {
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "postroom-8161",
        "description": "Set by signing in, the port in its name; unsafe requests show `X-CSRF-Token`, too.",
    },
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `postroom token add --right manage`, or a JSON Web Token of `[oauth]`.",
    },
}
INTRODUCTION: Final = """\
Everything that the management node of a broker can do. A name is one segment of a path, percent-encoded
(`a/b` is `a%2Fb`). Whole numbers have up to 63 bits. Times are µs since 1970, 0 never, where a name ends in
`_us`. Refusals are problem details (RFC 9457).
"""
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_REFUSED: Final = "Refused: `detail` says why."


def description(operations: Iterable[Operation]) -> dict[str, Any]:
    """The whole document."""
    known = list(operations)
    types = _types(known)
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    by_type = {_key(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for each in known:
        paths.setdefault(PREFIX + each.path, {})[each.method.lower()] = _described(each, by_type, components)
    for each in known:  # what a query has stands with its parameters
        if each.query is not None:
            components.pop(_name_of(by_type[_key(each.query)]), None)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {"title": "Postroom", "version": __version__, "description": INTRODUCTION},
        "security": [{"session": []}, {"bearer": []}, {}],
        "tags": [{"name": name} for name in sorted({each.tag for each in known})],
        "paths": paths,
        "components": {"schemas": dict(sorted(components.items())), "securitySchemes": SECURITY},
    }


def _types(operations: list[Operation]) -> list[Any]:
    """Each once."""
    found: dict[str, Any] = {_key(Problem): Problem}
    for each in operations:
        for kind in (each.answer, each.arguments, each.query):
            if kind is not None:
                found.setdefault(_key(kind), kind)
    return list(found.values())


def _name_of(schema: Mapping[str, str]) -> str:
    return schema["$ref"].rpartition("/")[2]


def _key(kind: Any) -> str:
    return str(kind)


def _described(
    operation: Operation, by_type: Mapping[str, Any], components: Mapping[str, Any]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": _parameters(operation, by_type, components),
    }
    if operation.arguments is not None:
        found["requestBody"] = {
            "required": operation.needs_arguments,
            "content": {"application/json": {"schema": by_type[_key(operation.arguments)]}},
        }
    found["responses"] = _responses(operation, by_type)
    if operation.is_open:
        found["security"] = [{}]
    return found


def _parameters(
    operation: Operation, by_type: Mapping[str, Any], components: Mapping[str, Any]
) -> list[dict[str, Any]]:
    path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(operation.path)
    ]
    if operation.query is None:
        return path
    schema = components[_name_of(by_type[_key(operation.query)])]
    required = schema.get("required", [])
    return [
        *path,
        *(
            {
                "name": each,
                "in": "query",
                "required": each in required,
                **({"description": known["description"]} if "description" in known else {}),
                "schema": {key: value for key, value in known.items() if key != "description"},
            }
            for each, known in schema["properties"].items()
        ),
    ]


def _responses(operation: Operation, by_type: Mapping[str, Any]) -> dict[str, Any]:
    done: dict[str, Any] = {"description": "Done."}
    if operation.answer is not None:
        done["content"] = {operation.media_type: {"schema": by_type[_key(operation.answer)]}}
    refused = {
        "description": _REFUSED,
        "content": {PROBLEM_TYPE: {"schema": by_type[_key(Problem)]}},
    }
    return {str(operation.status): done, "default": refused}
