"""The oracles, one module per behaviour. The order decides nothing but the order of work."""

from __future__ import annotations

from conformance.oracles.acknowledging import AcknowledgingOracle
from conformance.oracles.backlog import BacklogOracle
from conformance.oracles.base import Oracle
from conformance.oracles.batches import BatchOracle
from conformance.oracles.contents import ContentOracle
from conformance.oracles.copies import CopyOracle
from conformance.oracles.deaths import DeathOracle
from conformance.oracles.delay import DelayOracle
from conformance.oracles.delivery import DeliveryOracle
from conformance.oracles.durability import DurabilityOracle
from conformance.oracles.expiry import ExpiryOracle
from conformance.oracles.figures import FiguresOracle
from conformance.oracles.fresh import FreshOracle
from conformance.oracles.inactivity import InactivityOracle
from conformance.oracles.inflight import InFlightOracle
from conformance.oracles.interference import InterferenceOracle
from conformance.oracles.letters import LetterOracle
from conformance.oracles.lifespan import LifespanOracle
from conformance.oracles.loading import LoadingOracle
from conformance.oracles.marks import MarksOracle
from conformance.oracles.memory import MemoryOracle
from conformance.oracles.onlookers import OnlookerOracle
from conformance.oracles.ownletters import OwnLetterOracle
from conformance.oracles.paging import PagingOracle
from conformance.oracles.prefetch import PrefetchOracle
from conformance.oracles.presence import PresenceOracle
from conformance.oracles.redelivery import RedeliveryOracle
from conformance.oracles.release import ReleaseOracle
from conformance.oracles.restamping import RestampingOracle
from conformance.oracles.retries import RetryOracle
from conformance.oracles.room import RoomOracle
from conformance.oracles.selection import SelectionOracle
from conformance.oracles.temporaries import TemporaryOracle
from conformance.oracles.timestamping import TimeStampingOracle
from conformance.oracles.topics import TopicsOracle
from conformance.oracles.transactions import TransactionOracle
from conformance.oracles.unseen import UnseenOracle
from conformance.oracles.usage import UsageOracle
from conformance.oracles.visits import VisitOracle
from conformance.oracles.waiting import WaitingOracle
from conformance.oracles.windows import WindowOracle

ORACLES: tuple[type[Oracle], ...] = (
    ExpiryOracle,
    TimeStampingOracle,
    InactivityOracle,
    MemoryOracle,
    UsageOracle,
    LoadingOracle,
    RoomOracle,
    InterferenceOracle,
    PagingOracle,
    FreshOracle,
    InFlightOracle,
    PrefetchOracle,
    DelayOracle,
    RedeliveryOracle,
    DeliveryOracle,
    LifespanOracle,
    WaitingOracle,
    UnseenOracle,
    TransactionOracle,
    TopicsOracle,
    FiguresOracle,
    MarksOracle,
    SelectionOracle,
    OnlookerOracle,
    BacklogOracle,
    LetterOracle,
    OwnLetterOracle,
    PresenceOracle,
    RetryOracle,
    CopyOracle,
    TemporaryOracle,
    DurabilityOracle,
    ReleaseOracle,
    BatchOracle,
    DeathOracle,
    VisitOracle,
    ContentOracle,
    AcknowledgingOracle,
    WindowOracle,
    RestampingOracle,
)
