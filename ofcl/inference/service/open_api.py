"""The forms of requests and answers, as OpenAPI describes them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class Likely(BaseModel):
    """A label and its probability."""

    label: str
    probability: float | None


class Answer(BaseModel):
    """The answer about one sample."""

    label: str
    probability: float | None
    uncertainty: float | None
    top: list[Likely]


class Health(BaseModel):
    """Whether the service lives, and is ready to predict."""

    live: bool
    ready: bool


_SAMPLE = {
    "description": "A text; a row as an object or list; a vector as a list; an image as base64 of "
    "an image file or as nested lists.",
    "anyOf": [{"type": "string"}, {"type": "object"}, {"type": "array", "items": {}}],
}

BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["samples"],
                    "additionalProperties": False,
                    "properties": {"samples": {"type": "array", "items": _SAMPLE}},
                }
            },
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "Image files, or tables (CSV, JSON lines, Parquet).",
                        }
                    },
                }
            },
        },
    }
}
"""The body of `POST /predict`."""
