"""The state machines that the project is named for, by the name of their model."""

from __future__ import annotations

from brokerproof.conformance.machines.delay import DelayModel
from brokerproof.conformance.machines.expiry import ExpiryModel
from brokerproof.conformance.machines.inflight import InFlightModel
from brokerproof.conformance.machines.model import Model

MODELS: dict[str, type[Model]] = {model.name: model for model in (DelayModel, ExpiryModel, InFlightModel)}
