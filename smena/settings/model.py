"""Join the groups into the one frozen value that the product is configured by.

Constructing `Settings` reads nothing from outside: it takes values, or the layers that
`smena.settings.loading` has read, the first of which wins for each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, PrivateAttr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from smena.settings.groups import (
    Amqp,
    Batches,
    Database,
    DeadLetters,
    Evidence,
    Leadership,
    Once,
    Outbox,
    Partitions,
    Pool,
    Redis,
    Retry,
    Schedule,
    Settlements,
    Supervisor,
    Telemetry,
    Worker,
)
from smena.settings.kinds import AlembicFolders, ModulePaths
from smena.settings.layer import Layer

Profile = Literal["development", "production"]


class LayerSource(PydanticBaseSettingsSource):
    """Hand one layer to pydantic-settings, which merges the layers by their order."""

    def __init__(self, settings_cls: type[BaseSettings], layer: Layer) -> None:
        super().__init__(settings_cls)
        self._layer = layer

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 (its interface)
        """Return one top-level value, as pydantic-settings asks for it."""
        return self._layer.nested().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return the layer's values, nested by group."""
        return self._layer.nested()


class Settings(BaseSettings):
    """Everything that can be set, in groups; frozen.

    `sources` says for each key where its value came from; a key that is not there has its default.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        hide_input_in_errors=True,
    )

    profile: Profile = "development"
    """Which section `[profile.NAME]` counts, and whether unsafe values are refused; not set in the file itself."""

    books: ModulePaths = ()
    """Modules that hold the books of actors."""

    migrations: AlembicFolders = ()
    """Further Alembic folders, each a path or `package:folder`; `smena db upgrade` runs them after its own."""

    amqp: Amqp = Amqp()
    database: Database = Database()
    redis: Redis = Redis()
    worker: Worker = Worker()
    pool: Pool = Pool()
    supervisor: Supervisor = Supervisor()
    retry: Retry = Retry()
    outbox: Outbox = Outbox()
    leadership: Leadership = Leadership()
    once: Once = Once()
    settlements: Settlements = Settlements()
    evidence: Evidence = Evidence()
    partitions: Partitions = Partitions()
    batches: Batches = Batches()
    dead_letters: DeadLetters = DeadLetters()
    schedule: Schedule = Schedule()
    telemetry: Telemetry = Telemetry()

    app: Mapping[str, Any] = Field(default_factory=dict, repr=False)
    """The actors' own values, read and checked by `smena.app_settings(Model)` only."""

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def sources(self) -> Mapping[str, str]:
        """Return where each value that is not a default came from, by key (`worker.threads`)."""
        return self._sources

    @classmethod
    def from_layers(cls, layers: tuple[Layer, ...]) -> Settings:
        """Validate merged layers; raise pydantic's `ValidationError` with all that is wrong."""
        settings = cls(layers=layers)  # type: ignore[call-arg]  # taken out below
        for layer in reversed(layers):
            settings._sources.update({key: found.origin for key, found in layer.found.items()})
        return settings

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take the layers instead of pydantic-settings' own readers, which cannot say where a value is from."""
        given = init_settings()
        if "layers" not in given:
            return (init_settings,)
        return tuple(LayerSource(settings_cls, layer) for layer in given["layers"])
