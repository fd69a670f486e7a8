"""Uploaded files of a request, kept in memory."""

from __future__ import annotations

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from ofcl.inference.service.replies import Refused
from ofcl.inference.service.request_samples import Upload


async def read_uploads(request: Request, most: int, size: int) -> list[Upload]:
    """Reads the uploaded files of a request.

    Args:
        request: The request.
        most: The files that it may have.
        size: The bytes that it may have, so that no file is laid down on the disk.

    Raises:
        Refused: The body is not multipart, or has other parts or too many files.
    """
    parser = MultiPartParser(request.headers, request.stream(), max_files=most, max_fields=0)
    parser.spool_max_size = size
    try:
        form = await parser.parse()
    except MultiPartException as error:
        many = "Too many files" in error.message
        reason = f"more than {most} files" if many else "expected parts that are files"
        raise Refused(413 if many else 400, reason) from None
    except (ValueError, KeyError):  # python-multipart's errors are of the first kind
        raise Refused(400, "the body is not multipart/form-data") from None
    found = []
    for _, part in form.multi_items():
        if isinstance(part, UploadFile):
            found.append(Upload(part.filename or "file", await part.read()))
            await part.close()
    if not found:
        raise Refused(422, "no file is given")
    return found
