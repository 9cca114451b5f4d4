"""The editor at the other end: what it can do, and how it is reached (surfaces, ACP)."""

from acp.interfaces import Client
from acp.schema import ClientCapabilities


class Editor:
    """One editor; what it can do is known once it has introduced itself."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._can = ClientCapabilities()

    def connect(self, client: Client) -> None:
        """It can be spoken to from now on."""
        self._client = client

    def introduce(self, can: ClientCapabilities | None) -> None:
        """What it can do."""
        self._can = can or ClientCapabilities()

    @property
    def client(self) -> Client:
        """Its methods."""
        if self._client is None:
            raise ConnectionError("No editor is connected.")
        return self._client

    @property
    def can_read(self) -> bool:
        """Whether it shows files as they are in its buffers."""
        return bool(self._can.fs and self._can.fs.read_text_file)

    @property
    def can_write(self) -> bool:
        """Whether it writes files through its buffers."""
        return bool(self._can.fs and self._can.fs.write_text_file)

    @property
    def can_fill_forms(self) -> bool:
        """Whether a person can be shown a form."""
        return bool(self._can.elicitation and self._can.elicitation.form)
