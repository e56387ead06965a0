"""Reads how Firestore treats a field: its indexes and its TTL policy. And the words that findings about it share.

Imported only with STORE=firestore: it needs Google's libraries. Reads only. Called by `firestore` and `indexes`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.api_core.exceptions import GoogleAPICallError, NotFound, PermissionDenied
from google.auth.exceptions import GoogleAuthError
from google.cloud.firestore_admin_v1.services.firestore_admin import FirestoreAdminAsyncClient
from google.cloud.firestore_admin_v1.services.firestore_admin.transports import FirestoreAdminGrpcAsyncIOTransport

from millpond.doctor.findings import Finding, problem, unchecked
from millpond.gcp.credentials import find_credentials
from millpond.gcp.error_text import error_text
from millpond.settings import Settings

_CALL_S = 10.0


class FieldUnknown(Exception):
    """Firestore did not say how it treats a field; the finding says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.found)
        self.finding = finding


class FieldReader:
    """Asks for one field at a time, on behalf of one check."""

    def __init__(self, settings: Settings, client: FirestoreAdminAsyncClient, check: str, by_hand: str) -> None:
        """`by_hand`: the command that shows the same, for findings that could not be made."""
        self._client = client
        self._check = check
        self._by_hand = by_hand
        self._database = f"projects/{settings.gcp_project}/databases/{settings.firestore_database}"

    async def get(self, collection: str, path: str, what: str) -> Any:
        """The field's configuration, with that of its ancestors if it has none. Raises FieldUnknown."""
        name = f"{self._database}/collectionGroups/{collection}/fields/{path}"
        try:
            return await self._client.get_field(name=name, retry=None, timeout=_CALL_S)
        except NotFound:
            advice = "look at GCP_PROJECT and FIRESTORE_DATABASE"
            finding = problem(self._check, f"there is no database {self._database}", advice)
        except PermissionDenied:
            text = f"may not look at {what}: it needs roles/datastore.viewer"
            finding = unchecked(self._check, text, self._by_hand)
        except (GoogleAPICallError, GoogleAuthError) as error:
            finding = unchecked(self._check, f"{what}: {error_text(error)}", self._by_hand)
        raise FieldUnknown(finding)


@contextlib.asynccontextmanager
async def reading(
    settings: Settings, channel: grpc.aio.Channel, check: str, by_hand: str
) -> AsyncIterator[FieldReader]:
    """A reader on this channel, which is closed with it."""
    client = FirestoreAdminAsyncClient(transport=FirestoreAdminGrpcAsyncIOTransport(channel=channel))
    try:
        yield FieldReader(settings, client, check, by_hand)
    finally:
        await client.transport.close()  # type: ignore[no-untyped-call]


def open_channel() -> grpc.aio.Channel:
    """A channel to Firestore's administration. Raises AccessDenied without credentials."""
    credentials = find_credentials(FirestoreAdminGrpcAsyncIOTransport.AUTH_SCOPES, "for Google Cloud")
    return FirestoreAdminGrpcAsyncIOTransport.create_channel(credentials=credentials)


def collection_id(settings: Settings, collection: str) -> str:
    """The id by which policies and indexes name a collection: the last part of its path.

    The configured prefix is on the first part.
    """
    return collection.rpartition("/")[2] if "/" in collection else settings.firestore_collection_prefix + collection


def where(settings: Settings) -> str:
    """The options of gcloud that name the database."""
    return f"--project={settings.gcp_project} --database='{settings.firestore_database}'"
