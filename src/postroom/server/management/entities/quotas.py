"""Quotas, as the management node shows and changes them."""

from collections.abc import Iterable
from typing import Final

from postroom.manager.kernel.quota_definition import Quota, QuotaDefinition
from postroom.model.entity_types import QUOTA_TYPE
from postroom.model.settings import types_of
from postroom.server.management.entity_type import Columns, DefinedEntityType, same_named
from postroom.server.management.request import Request


class Quotas(DefinedEntityType[Quota, QuotaDefinition]):
    """The quota resources of one broker."""

    type: Final = QUOTA_TYPE
    kind = "quota"
    definition = QuotaDefinition
    settable = types_of(QuotaDefinition)

    def make_columns(self) -> Columns[Quota]:
        """Definition and use: of the shared pool, or of all private ones together."""
        return {
            **same_named(*self.settable, of="definition"),
            "destinations": lambda quota: len(quota.members),
            "messages_used": lambda quota: sum(int(pool.messages) for pool in quota.pools()),
            "bytes_used": lambda quota: sum(int(pool.bytes) for pool in quota.pools()),
            "blocked_sends": lambda quota: sum(int(pool.line.count) for pool in quota.pools()),
        }

    def all(self) -> Iterable[Quota]:
        return self.manager.quotas.values()

    def find(self, request: Request) -> Quota:
        return self.manager.quota(request.required_name())

    def define(self, definition: QuotaDefinition, now_us: int) -> Quota:
        return self.manager.create_quota(definition, now_us)

    def alter(self, definition: QuotaDefinition, now_us: int) -> Quota:
        return self.manager.update_quota(definition, now_us)

    def drop(self, name: str, now_us: int) -> None:
        self.manager.delete_quota(name, now_us)
