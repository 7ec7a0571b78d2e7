"""A gRPC server with grpc.health.v1 that lives inside a service's task group and leaves signals to it."""

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from leadsman.runtime.http import ListenError
from leadsman.runtime.options import Address
from leadsman.wire.hop import CHANNEL_OPTIONS

OPTIONS = [
    *CHANNEL_OPTIONS,
    ("grpc.so_reuseport", 0),  # else a second process takes half of the calls instead of failing to start
    ("grpc.max_concurrent_streams", 1000),
    ("grpc.keepalive_time_ms", 20_000),  # frees the streams of gateways that vanished without a goodbye
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Gateways ping often to notice a dead replica; the default answers that with a disconnect.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
    ("grpc.http2.max_ping_strikes", 0),
]
"""Server options."""

_LAST_WORDS_S = 0.2
"""What is left for health watchers once the service's own calls have ended; they never end by themselves."""

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class GrpcServer:
    """Serves one gRPC service; reported NOT_SERVING until `set_serving`."""

    def __init__(self, address: Address, service: str, handler: grpc.GenericRpcHandler) -> None:
        self._address = address
        self._service = service
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(options=OPTIONS)
        self._server.add_generic_rpc_handlers((handler,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._listening = False

    @property
    def address(self) -> Address:
        """Where the server listens; the real port once `listen` has returned."""
        return self._address

    @property
    def listening(self) -> bool:
        """Whether calls are accepted."""
        return self._listening

    async def listen(self) -> None:
        """Bind the address and begin to answer.

        Raises:
            ListenError: the address is taken or not ours.
        """
        await self.set_serving(serving=False)
        try:
            port = self._server.add_insecure_port(str(self._address))
        except RuntimeError as error:  # grpc's way to say that bind failed
            raise ListenError(
                f"cannot listen on {self._address}: the port is taken or the address is not ours; choose another one"
            ) from error
        self._address = Address(self._address.host, port)
        await self._server.start()
        self._listening = True

    async def set_serving(self, *, serving: bool) -> None:
        """Tell health checks whether this replica may be asked."""
        for name in ("", self._service):
            await self._health.set(name, _SERVING if serving else _NOT_SERVING)

    async def stop(self) -> None:
        """Say NOT_SERVING, stop accepting, and end the calls still open; finish the service's own calls first."""
        self._listening = False
        await self._server.stop(_LAST_WORDS_S)
