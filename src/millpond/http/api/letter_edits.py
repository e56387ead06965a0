"""Correct the payload of a dead letter over HTTP. The original stays, and who edited it, and when, is recorded."""

from __future__ import annotations

from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from millpond.core.collections import LETTERS
from millpond.core.errors import EditRefused, InvalidEvent
from millpond.core.model import Ref
from millpond.dead_letters.correction import Edit
from millpond.http import operation as op
from millpond.http.access import Access, RequestFault
from millpond.http.api.letter_answers import Letter, LetterEditRequest, opened
from millpond.http.routing import Route, decode_body, failure
from millpond.service.service import Service

_UNUSABLE = ("invalid_json", "not_an_object", "too_deep", "integer_out_of_range")
_REFUSED = ("already_replayed", "edited_meanwhile", "not_edited")
_EXPECTED = '{"data": "…", "by": "your name"}, the data as the text of a JSON object'
_EXAMPLE = {"data": '{"service": "api", "timestamp": "2026-01-08T12:34:56Z"}', "by": "Ada"}


class LetterEditsApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        return [Route("/api/letters/{id}/edit", {"POST": self._edit}, Access.ADMIN)]

    @op.operation(
        "editLetter",
        op.INVALID_BODY,
        op.fails(400, *_UNUSABLE, "invalid_name", "payload_too_large"),
        op.fails(409, *_REFUSED),
        op.NOT_FOUND,
        parameters=[op.in_path("id", "The letter's id.", "health__1002")],
        bodies=[op.Body(LetterEditRequest, _EXAMPLE)],
    )
    async def _edit(self, request: Request, key: str) -> Letter | Response:
        """Correct a letter's payload, or put the original back.

        The message is not sent: preview and replay do that, with its original message id and publish time. The
        payload must be the text of a JSON object. 409 if the letter was replayed successfully, or edited since it
        was read.
        """
        asked = decode_body(await request.body(), LetterEditRequest, _EXPECTED)
        data = None if asked.data is None else asked.data.encode()
        edit = Edit(data, asked.by, None if asked.edits is UNSET else asked.edits)
        try:
            found = await self._service.edit_letter(key, edit)
        except EditRefused as refusal:
            status = 409 if refusal.reason in _REFUSED else 400
            raise RequestFault(status, refusal.reason, str(refusal)) from None
        except InvalidEvent as error:
            raise RequestFault(400, error.reason, str(error)) from None
        letter = await self._service.letters.open_letter(Ref(LETTERS, key)) if found else None
        self._service.monitor.changes.letters()
        return failure(404, "not_found", f"there is no letter {key}") if letter is None else opened(*letter)
