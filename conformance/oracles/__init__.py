"""The oracles, one module per behaviour. The order decides nothing but the order of work."""

from __future__ import annotations

from brokerproof.conformance.oracles.acknowledging import AcknowledgingOracle
from brokerproof.conformance.oracles.backlog import BacklogOracle
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.batches import BatchOracle
from brokerproof.conformance.oracles.contents import ContentOracle
from brokerproof.conformance.oracles.copies import CopyOracle
from brokerproof.conformance.oracles.deaths import DeathOracle
from brokerproof.conformance.oracles.delay import DelayOracle
from brokerproof.conformance.oracles.delivery import DeliveryOracle
from brokerproof.conformance.oracles.durability import DurabilityOracle
from brokerproof.conformance.oracles.expiry import ExpiryOracle
from brokerproof.conformance.oracles.figures import FiguresOracle
from brokerproof.conformance.oracles.fresh import FreshOracle
from brokerproof.conformance.oracles.inactivity import InactivityOracle
from brokerproof.conformance.oracles.inflight import InFlightOracle
from brokerproof.conformance.oracles.interference import InterferenceOracle
from brokerproof.conformance.oracles.letters import LetterOracle
from brokerproof.conformance.oracles.lifespan import LifespanOracle
from brokerproof.conformance.oracles.loading import LoadingOracle
from brokerproof.conformance.oracles.marks import MarksOracle
from brokerproof.conformance.oracles.memory import MemoryOracle
from brokerproof.conformance.oracles.onlookers import OnlookerOracle
from brokerproof.conformance.oracles.ownletters import OwnLetterOracle
from brokerproof.conformance.oracles.paging import PagingOracle
from brokerproof.conformance.oracles.prefetch import PrefetchOracle
from brokerproof.conformance.oracles.presence import PresenceOracle
from brokerproof.conformance.oracles.redelivery import RedeliveryOracle
from brokerproof.conformance.oracles.release import ReleaseOracle
from brokerproof.conformance.oracles.restamping import RestampingOracle
from brokerproof.conformance.oracles.retries import RetryOracle
from brokerproof.conformance.oracles.room import RoomOracle
from brokerproof.conformance.oracles.selection import SelectionOracle
from brokerproof.conformance.oracles.temporaries import TemporaryOracle
from brokerproof.conformance.oracles.timestamping import TimeStampingOracle
from brokerproof.conformance.oracles.topics import TopicsOracle
from brokerproof.conformance.oracles.transactions import TransactionOracle
from brokerproof.conformance.oracles.unseen import UnseenOracle
from brokerproof.conformance.oracles.usage import UsageOracle
from brokerproof.conformance.oracles.visits import VisitOracle
from brokerproof.conformance.oracles.waiting import WaitingOracle
from brokerproof.conformance.oracles.windows import WindowOracle

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
