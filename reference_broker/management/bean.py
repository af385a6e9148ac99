"""What a bean is: a name, and tables of attributes and operations that fit its kind.

* A kind is a table; a bean is a kind and what it shows. Nothing is copied: an attribute is read when it is asked for.
* An attribute that this broker has no metric for is not in the table, never 0.
* An operation either answers at once or gives the core's ``Operation``, which is answered later.
* Types and classes are written in Java's words, because ``list`` shows them to tools that expect those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from brokerproof.reference_broker.core.events import Operation

if TYPE_CHECKING:
    from brokerproof.reference_broker.management.broker_view import BrokerView
    from brokerproof.reference_broker.management.object_names import ObjectName

STRING: Final = "java.lang.String"
LONG: Final = "long"
INT: Final = "int"
BOOLEAN: Final = "boolean"
NAMES: Final = "[Ljavax.management.ObjectName;"
NAME: Final = "javax.management.ObjectName"
MAP: Final = "java.util.Map"
VOID: Final = "void"

#: What JSON can say.
Json = Any
#: (the broker's view, what the bean shows) -> value. Each table knows what its beans show.
Read = Callable[["BrokerView", Any], Json]
#: The same, with the new value.
Write = Callable[["BrokerView", Any, Json], Operation]
#: The same, with the arguments. A core operation is carried out, and the answer is the number of messages or nothing.
Perform = Callable[["BrokerView", Any, Sequence[Json]], "Json | Operation"]


class OperationRefused(Exception):
    """The *prober* asked a bean for something that it cannot do. ``kind`` is the Java exception's class."""

    def __init__(self, kind: str, text: str, status: int = 500) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.status = status


class Attribute(Struct, eq=False):
    """One row of a table."""

    type: str
    read: Read
    write: Write | None = None


class BeanOperation(Struct, eq=False):
    """One signature of an operation. ``counts``: its answer is how many messages it concerned."""

    arguments: Sequence[str]
    returns: str
    perform: Perform
    counts: bool = False
    #: Whether a destination that does not exist is no error.
    lenient: bool = False

    def __post_init__(self) -> None:
        self.arguments = tuple(self.arguments)

    def result(self, count: int) -> Json:
        """What a core operation that concerned so many messages is answered with."""
        if not self.counts:
            return None
        return count > 0 if self.returns == BOOLEAN else count


class Kind:
    """What all beans of a class have in common."""

    __slots__ = ("actions", "attributes", "class_name")

    def __init__(
        self,
        class_name: str,
        attributes: Mapping[str, Attribute],
        actions: Mapping[str, Sequence[BeanOperation]] | None = None,
    ) -> None:
        self.class_name = class_name
        self.attributes = dict(attributes)
        self.actions = {name: tuple(signatures) for name, signatures in (actions or {}).items()}


class Bean(Struct, eq=False):
    """One bean: what it is called, what it can show, and what of."""

    name: ObjectName
    kind: Kind
    subject: object
