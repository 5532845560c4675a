"""A connection that speaks HTTP/2 (RFC 9113), for small requests and responses: many requests at a time.

Hand-written because the maintained library h2 takes 300 us of CPU time for a request and this module 7: more than
HTTP/2 saves. h2 is written in Python too, and checks every state and header of both sides; a client for small writes
needs few of them. Tests use h2 to check what this module sends. The requests of one iteration of the event loop are
written together: one system call and one TLS record for many of them.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from mooring.kube import http2_frames as h2
from mooring.kube.client_errors import NOT_LEADING, NotLeading
from mooring.kube.http2_frames import ErrorCode, ProtocolViolation, Setting
from mooring.kube.http2_headers import (
    MAX_HEADERS,
    USUAL_STATUSES,
    decode_headers,
    encode_head,
    encode_request,
    success_status,
)
from mooring.kube.http2_stream import HeaderBlock, Stream
from mooring.kube.http_connection import TIMED_OUT, Connection, Field, Head
from mooring.kube.transport import Answer

#: The requests under way on a connection. With 128 of them on one connection, etcd was measured to be slower.
MAX_STREAMS: Final = 64
#: The largest response. API servers store objects of 1.5 MiB; their JSON is larger.
_MAX_RESPONSE: Final = 16 << 20
#: The largest amount of unfinished responses.
_RECEIVE_WINDOW: Final = 64 << 20
#: Windows are opened again in steps of this size.
_WINDOW_STEP: Final = 1 << 20
#: What may wait in memory because the server does not read, before no more requests are sent.
_WRITE_BUFFER: Final = 1 << 20
#: The replies to PING and SETTINGS that may wait for a server that does not read.
_MAX_WAITING_REPLIES: Final = 1000
#: A connection with requests on which nothing was received for this time is asked for a sign of life,
_PING_SECONDS: Final = 5.0
#: and is lost if there is none for this time.
_DEAD_SECONDS: Final = 15.0

_SETTINGS: Final = {
    Setting.HEADER_TABLE_SIZE: 0,
    Setting.ENABLE_PUSH: 0,
    Setting.INITIAL_WINDOW_SIZE: _MAX_RESPONSE,
}


class Http2Connection(Connection):
    """A connection with many requests at a time.

    `may_write` is called before requests are written. Those that the iteration of the event loop has collected are
    dropped if it returns false, so that none is sent after the lease was lost.
    """

    __slots__ = (
        "_block", "_blocked", "_flushing", "_initial_window", "_limit", "_max_frame", "_may_write", "_next",
        "_output", "_partial", "_paused", "_peer_streams", "_pinged", "_problem", "_quiet_since", "_reads",
        "_reads_seen", "_receive_window", "_released", "_settled", "_streams", "_unsent", "_waiting_replies",
        "_window",
    )  # fmt: skip

    version = "2"

    def __init__(
        self,
        context: ssl.SSLContext | None,
        on_lost: Callable[[Connection], None],
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(context, on_lost)
        self._may_write = may_write
        self._next = 1
        self._streams: dict[int, Stream] = {}
        #: Requests that are not written yet, and requests whose body has to wait for the flow control of the server.
        self._unsent: list[Stream] = []
        self._blocked: list[Stream] = []
        #: Frames other than requests that are not written yet.
        self._output: list[bytes] = []
        self._flushing = False
        self._paused = False
        self._waiting_replies = 0
        # What the server allows
        self._peer_streams = 0
        self._limit = 0
        self._window = self._initial_window = h2.DEFAULT_WINDOW
        self._max_frame = h2.MAX_FRAME
        # What the server may still send, and what was received and not allowed again
        self._receive_window = _RECEIVE_WINDOW
        self._released = 0
        self._partial = b""
        self._block: HeaderBlock | None = None
        #: Set when the server has sent its settings, or the connection is lost.
        self._settled = asyncio.Event()
        self._problem = ""
        self._reads = self._reads_seen = 0
        self._quiet_since = self.idle_since
        self._pinged = False

    @staticmethod
    def head(method: str, authority: str, fields: Sequence[Field]) -> Head:
        """Encode the method and the headers of requests."""
        return encode_head(method, authority, fields)

    @property
    def capacity(self) -> int:
        """The number of requests that can be sent now."""
        return self._limit - len(self._streams)

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return bool(self._streams)

    async def established(self) -> None:
        """Wait for the settings of the server. Raises OSError if the connection is lost before."""
        await self._settled.wait()
        if self.closing:
            raise ConnectionResetError(self._problem or "the server closes the connection")
        if self._limit <= 0:
            self.close()
            raise ConnectionRefusedError("the server allows no requests on the connection")

    # Requests

    def send(self, head: Head, path: str, body: bytes, deadline: float) -> "asyncio.Future[Answer]":
        """Send a request at the end of this iteration of the event loop."""
        number = self._next
        self._next = number + 2
        if self._next > h2.MAX_STREAM:
            self._take_no_more()
        answer: asyncio.Future[Answer] = self.loop.create_future()
        stream = self._streams[number] = Stream(number, answer, deadline, self._reads)
        size = len(body)
        block = encode_request(head, path, size)
        room = min(self._window, self._initial_window, self._max_frame)
        if size <= room and len(block) <= self._max_frame and not self._blocked:
            flags = h2.END_HEADERS if body else h2.END_HEADERS | h2.END_STREAM
            pack = h2.HEAD.pack
            stream.frames = pack(len(block) << 8 | h2.HEADERS, flags, number) + block
            if body:
                stream.frames += pack(size << 8 | h2.DATA, h2.END_STREAM, number) + body
                stream.charged = size
                stream.credit = -size
                self._window -= size
        else:
            stream.frames = h2.header_frames(number, block, 0 if body else h2.END_STREAM, self._max_frame)
            if body:
                stream.rest = body
                self._blocked.append(stream)
        self._unsent.append(stream)
        if not self._flushing:
            self._flush_soon()
        return answer

    def cancel(self, answer: "asyncio.Future[Answer]") -> None:
        """Reset the stream of a request. If the request is not written yet, it is never sent."""
        for stream in self._streams.values():
            if stream.answer is answer:
                self._reset(stream, ErrorCode.CANCEL)
                return

    def fail(self, problem: str) -> None:
        """End all requests. Those that were not sent completely have certainly not been carried out."""
        self._limit = 0
        self._problem = self._problem or problem
        self._settled.set()
        streams = list(self._streams.values())
        self._streams.clear()
        self._output.clear()
        for stream in streams:
            stream.end(problem)
        self._unsent.clear()
        self._blocked.clear()

    def close(self) -> None:
        """Take no more requests, and close the connection as soon as there is none under way."""
        self._limit = 0
        super().close()

    def check_deadlines(self, now: float) -> None:
        """End overdue requests. Close the connection if nothing is received on it any more."""
        if self._reads != self._reads_seen:
            self._reads_seen = self._reads
            self._quiet_since = now
            self._pinged = False
        quiet = now - self._quiet_since
        for stream in list(self._streams.values()):
            if now < stream.deadline:
                continue
            if stream.reads == self._reads:
                # Not even a reply to a PING: the requests of others must not wait for their deadlines too.
                self.abort(TIMED_OUT)
                return
            stream.end(TIMED_OUT)
            self._reset(stream, ErrorCode.CANCEL)
        if self._streams and quiet >= _DEAD_SECONDS:
            self.abort(f"nothing was received for {_DEAD_SECONDS:g} s")
        elif self._streams and quiet >= _PING_SECONDS and not self._pinged:
            self._pinged = True
            self._write(h2.frame(h2.PING, 0, 0, bytes(8)))

    def check(self, now: float, idle_seconds: float) -> None:
        """End overdue requests, and close the connection if it has been idle for some time. Call it regularly."""
        if not self._streams:
            self._quiet_since = now
        super().check(now, idle_seconds)

    # Sending

    def _write(self, frame: bytes) -> None:
        """Send a frame that is no request."""
        self._output.append(frame)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Write what has been collected since the last iteration of the event loop.

        The pool asks whether it may write before it passes a request to this connection. Other callbacks run between
        that and this method, and they can take long. So the question is asked again, immediately before the requests
        are written: nothing that is in the buffer when the lease is lost is sent later. The same holds for bodies
        that wait for flow control.
        """
        self._flushing = False
        if (self._unsent or self._blocked) and self._may_write is not None and not self._may_write():
            self._drop_requests()
        if self._transport is None or self._transport.is_closing():
            return
        output, self._output = self._output, []
        for stream in self._unsent:
            output.append(stream.frames)
            stream.frames = b""
        self._unsent.clear()
        if self._blocked:
            self._send_blocked(output)
        if output:
            self._transport.write(b"".join(output))

    def _drop_requests(self) -> None:
        """End the requests that are not sent completely, because another scheduler may be the leader."""
        for stream in {each.number: each for each in (*self._unsent, *self._blocked)}.values():
            if not stream.answer.done():
                stream.answer.set_exception(NotLeading(NOT_LEADING))
            self._reset(stream, ErrorCode.CANCEL)

    def _send_blocked(self, output: list[bytes]) -> None:
        """Send as much of the waiting bodies as the server has room for."""
        for stream in list(self._blocked):
            while stream.rest:
                room = min(self._window, self._initial_window + stream.credit, self._max_frame)
                if room <= 0:
                    break
                part, stream.rest = stream.rest[:room], stream.rest[room:]
                self._window -= len(part)
                stream.credit -= len(part)
                output.append(h2.frame(h2.DATA, 0 if stream.rest else h2.END_STREAM, stream.number, part))
            if not stream.rest:
                self._blocked.remove(stream)

    def _reset(self, stream: Stream, code: ErrorCode) -> None:
        """Forget a stream, and tell the server if it knows it."""
        if stream.frames:
            self._unsent.remove(stream)
            self._window += stream.charged
        else:
            self._write(h2.number_frame(h2.RST_STREAM, stream.number, code))
        self._forget(stream)

    def _forget(self, stream: Stream) -> None:
        """Remove a stream, and give its room in the window back to the server."""
        del self._streams[stream.number]
        if stream.rest:
            self._blocked.remove(stream)
        self._release(stream.received)
        if self.closing and not self._streams:
            self.close()

    def _release(self, size: int) -> None:
        """Allow the server to send as much as was received."""
        self._released += size
        if self._released >= _WINDOW_STEP:
            self._receive_window += self._released
            self._write(h2.number_frame(h2.WINDOW_UPDATE, 0, self._released))
            self._released = 0

    def _take_no_more(self) -> None:
        """Send no more requests on this connection."""
        self.closing = True
        self._limit = 0

    def _update_limit(self) -> None:
        self._limit = 0 if self.closing or self._paused else min(MAX_STREAMS, self._peer_streams)

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface and the settings."""
        super().connection_made(transport)
        assert self._transport is not None
        self._transport.set_write_buffer_limits(_WRITE_BUFFER)
        window = h2.number_frame(h2.WINDOW_UPDATE, 0, _RECEIVE_WINDOW - h2.DEFAULT_WINDOW)
        self._transport.write(h2.PREFACE + h2.settings_frame(_SETTINGS) + window)

    def pause_writing(self) -> None:
        """Send no more requests: the server does not read."""
        self._paused = True
        self._update_limit()

    def resume_writing(self) -> None:
        """Send requests again."""
        self._paused = False
        self._waiting_replies = 0
        self._update_limit()

    def eof_received(self) -> None:
        """Send no more requests."""
        self._take_no_more()

    def data_received(self, data: bytes) -> None:
        """Process the frames that are complete."""
        if self._transport is None or self._transport.is_closing():
            return
        self._reads += 1
        try:
            self._receive(self._partial + data if self._partial else data)
        except ProtocolViolation as error:
            self._problem = str(error)
            if not self._transport.is_closing():
                self._transport.write(h2.goaway_frame(error.code))
            self.abort(str(error))

    # Receiving

    def _receive(self, data: bytes) -> None:
        start, size, streams = 0, len(data), self._streams
        unpack = h2.HEAD.unpack_from
        while size - start >= h2.HEAD_SIZE:
            head, flags, number = unpack(data, start)
            length = head >> 8
            if length > h2.MAX_FRAME:
                raise ProtocolViolation(f"a frame of {length} bytes", ErrorCode.FRAME_SIZE_ERROR)
            begin = start + h2.HEAD_SIZE
            if begin + length > size:
                break
            start = begin + length
            kind, number = head & 0xFF, number & h2.MAX_STREAM
            stream = streams.get(number) if self._block is None else None
            if stream is not None and self._usual_received(stream, kind, flags, data[begin:start]):
                continue
            self._process(kind, flags, number, data[begin:start])
            if self._transport is None or self._transport.is_closing():
                start = size  # what the server has sent since is of no interest
        self._partial = data[start:]

    def _usual_received(self, stream: Stream, kind: int, flags: int, payload: bytes) -> bool:
        """Process a frame of a usual response: headers of a success, or a whole body. Return False for others.

        Nearly all responses are such. What happens is the same as in ``_process``, with fewer calls.
        """
        if stream.frames:
            return False
        if kind == h2.HEADERS:
            if flags != h2.END_HEADERS or stream.status:
                return False
            stream.status = USUAL_STATUSES.get(payload[:4]) or success_status(payload)
            return stream.status > 0
        size = len(payload)
        if (
            kind != h2.DATA
            or flags != h2.END_STREAM
            or not 200 <= stream.status < 300
            or stream.received
            or stream.rest
            or self.closing
            or size > self._receive_window
        ):
            return False
        self._receive_window -= size
        del self._streams[stream.number]
        self._released += size
        if self._released >= _WINDOW_STEP:
            self._release(0)
        stream.succeed(payload)
        return True

    def _process(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None and (kind != h2.CONTINUATION or number != self._block.stream):
            raise ProtocolViolation("a header block that is interrupted")
        if kind == h2.HEADERS and number:
            self._headers_received(flags, number, payload)
        elif kind == h2.DATA and number:
            self._data_received(flags, number, payload)
        else:
            h2.check_layout(kind, number, len(payload))
            receive = _RECEIVERS.get(kind)
            if receive is not None:
                receive(self, flags, number, payload)
        # Frames of unknown types are extensions, to be ignored.
        if not self._settled.is_set() and kind != h2.SETTINGS:
            raise ProtocolViolation("a first frame that has no settings")

    def _headers_received(self, flags: int, number: int, payload: bytes) -> None:
        if flags & (h2.PADDED | h2.HAS_PRIORITY):
            payload = h2.without_padding(payload, flags)
        if flags & h2.END_HEADERS:
            self._block_received(number, flags, payload)
        else:
            self._block = HeaderBlock(number, flags)
            self._block.data += payload

    def _continuation_received(self, flags: int, number: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise ProtocolViolation("the end of a header block without its start")
        block.data += payload
        if len(block.data) > MAX_HEADERS:
            raise ProtocolViolation("a header block that is too large", ErrorCode.ENHANCE_YOUR_CALM)
        if flags & h2.END_HEADERS:
            self._block = None
            self._block_received(number, block.flags, bytes(block.data))

    def _block_received(self, number: int, flags: int, block: bytes) -> None:
        stream = self._stream(number)
        if stream is None:
            return
        ends = flags & h2.END_STREAM
        if stream.status:
            # Trailers: nothing in them is of interest.
            if not ends:
                self._malformed(stream, "a second response")
                return
        else:
            status = success_status(block)
            if not status:
                status, stream.headers = decode_headers(block)
            if status < 100 or status == 101 or (status < 200 and ends):
                self._malformed(stream, f"the status {status}")
                return
            if status < 200:
                return  # An interim response: the final one follows.
            stream.status = status
        if ends:
            self._complete(stream)

    def _data_received(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._receive_window -= size
        if self._receive_window < 0:
            raise ProtocolViolation("more data than allowed", ErrorCode.FLOW_CONTROL_ERROR)
        if flags & h2.PADDED:
            payload = h2.without_padding(payload, h2.PADDED)
        stream = self._stream(number)
        if stream is None:
            self._release(size)
            return
        stream.received += size
        if stream.received > _MAX_RESPONSE:
            self._malformed(stream, "a response that is too large", ErrorCode.FLOW_CONTROL_ERROR)
        elif not stream.status:
            self._malformed(stream, "a body without headers")
        else:
            if not stream.body:
                stream.body = payload
            elif isinstance(stream.body, bytes):
                stream.body = bytearray(stream.body + payload)
            else:
                stream.body += payload
            if flags & h2.END_STREAM:
                self._complete(stream)

    def _complete(self, stream: Stream) -> None:
        """End a request with its response."""
        if stream.rest:
            # The server has answered before it has read the request, for example because the request is too large.
            self._reset(stream, ErrorCode.NO_ERROR)
        else:
            self._forget(stream)
        stream.finish()

    def _malformed(self, stream: Stream, problem: str, code: ErrorCode = ErrorCode.PROTOCOL_ERROR) -> None:
        """End a request whose response is not one of HTTP/2. Other requests are not affected."""
        stream.end(f"the response is not HTTP/2: {problem}")
        self._reset(stream, code)

    def _stream(self, number: int) -> Stream | None:
        """Return a stream of a received frame, or None if it has ended. Raises ProtocolViolation."""
        stream = self._streams.get(number)
        if stream is None:
            if number >= self._next or not number & 1:
                raise ProtocolViolation(f"a frame of the stream {number}, which does not exist")
        elif stream.frames:
            raise ProtocolViolation(f"a response on the stream {number} before its request")
        return stream

    def _reset_received(self, flags: int, number: int, payload: bytes) -> None:
        stream = self._stream(number)
        if stream is None:
            return
        code = h2.read_code(payload)
        stream.end(f"the server reset the request ({code})", refused=code == ErrorCode.REFUSED_STREAM.name)
        self._forget(stream)

    def _settings_received(self, flags: int, number: int, payload: bytes) -> None:
        if flags & h2.ACK:
            if payload:
                raise ProtocolViolation("settings in an acknowledgment", ErrorCode.FRAME_SIZE_ERROR)
            return
        first = not self._settled.is_set()
        if first:
            self._peer_streams = MAX_STREAMS
        for key, value in h2.read_settings(payload):
            if key == Setting.MAX_CONCURRENT_STREAMS:
                self._peer_streams = value
            elif key == Setting.MAX_FRAME_SIZE:
                self._max_frame = value
            elif key == Setting.INITIAL_WINDOW_SIZE:
                self._initial_window = value
                if any(value + each.credit > h2.MAX_WINDOW for each in self._streams.values()):
                    raise ProtocolViolation("a window that is too large", ErrorCode.FLOW_CONTROL_ERROR)
        self._update_limit()
        self._settled.set()
        self._reply(h2.frame(h2.SETTINGS, h2.ACK, 0))

    def _ping_received(self, flags: int, number: int, payload: bytes) -> None:
        if not flags & h2.ACK:
            self._reply(h2.frame(h2.PING, h2.ACK, 0, payload))

    def _reply(self, frame: bytes) -> None:
        """Send a reply. A server that requests many and reads none must not fill the memory."""
        self._waiting_replies += self._paused
        if self._waiting_replies > _MAX_WAITING_REPLIES:
            raise ProtocolViolation("too many frames without reading", ErrorCode.ENHANCE_YOUR_CALM)
        self._write(frame)

    def _goaway_received(self, flags: int, number: int, payload: bytes) -> None:
        """Send no more requests. The server finishes those up to a stream and has not processed the others."""
        self._take_no_more()
        last = h2.read_number(payload)
        self._problem = f"the server closes the connection ({h2.read_code(payload, 4)})"
        for stream in [each for each in self._streams.values() if each.number > last or each.frames]:
            stream.end(self._problem, refused=True)
            if stream.frames:
                self._unsent.remove(stream)
            self._forget(stream)
        if not self._streams:
            self.close()

    def _window_received(self, flags: int, number: int, payload: bytes) -> None:
        size = h2.read_number(payload)
        if not number:
            self._window += size
            if not size or self._window > h2.MAX_WINDOW:
                raise ProtocolViolation(f"a window that grows by {size} bytes", ErrorCode.FLOW_CONTROL_ERROR)
        elif (stream := self._stream(number)) is not None:
            stream.credit += size
            if not size or self._initial_window + stream.credit > h2.MAX_WINDOW:
                self._malformed(stream, f"a window that grows by {size} bytes", ErrorCode.FLOW_CONTROL_ERROR)
        if self._blocked:
            self._flush_soon()

    def _push_received(self, flags: int, number: int, payload: bytes) -> None:
        raise ProtocolViolation("a response without a request")


_RECEIVERS: Final[dict[int, Callable[[Http2Connection, int, int, bytes], None]]] = {
    h2.RST_STREAM: Http2Connection._reset_received,
    h2.SETTINGS: Http2Connection._settings_received,
    h2.PUSH_PROMISE: Http2Connection._push_received,
    h2.PING: Http2Connection._ping_received,
    h2.GOAWAY: Http2Connection._goaway_received,
    h2.WINDOW_UPDATE: Http2Connection._window_received,
    h2.CONTINUATION: Http2Connection._continuation_received,
}
