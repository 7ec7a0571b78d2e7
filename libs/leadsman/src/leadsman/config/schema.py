"""JSON Schema of configuration documents, for editors and for checks outside a cluster."""

from typing import Any

import msgspec

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def document_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema (draft 2020-12) of documents that `leadsman.config.load` reads into `kind`: no unknown keys."""
    schema = msgspec.json.schema(kind)
    for definition in schema["$defs"].values():
        if "properties" in definition:
            definition["additionalProperties"] = False
    return {"$schema": DIALECT, "title": kind.__name__, **schema}
