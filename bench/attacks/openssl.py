"""TLS sessions that can be read, changed and used again, which Python's ssl does not allow: OpenSSL's C interface."""
import ctypes, ctypes.util, socket, struct

TIMEOUT_S = 20
# Numbers of <openssl/ssl.h> and <openssl/tls1.h>.
SET_HOST_NAME, SET_MAX_VERSION, TLS_1_2 = 55, 124, 0x0303
EARLY_STATUS = ("none", "refused", "taken")


def library():
    found = ctypes.CDLL(ctypes.util.find_library("ssl"))
    pointer, integer, long, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_size_t
    signatures = {
        "TLS_client_method": (pointer, []), "SSL_CTX_new": (pointer, [pointer]), "SSL_CTX_ctrl": (long, [pointer, integer, long, pointer]),
        "SSL_new": (pointer, [pointer]), "SSL_free": (None, [pointer]), "SSL_set_fd": (integer, [pointer, integer]),
        "SSL_ctrl": (long, [pointer, integer, long, pointer]), "SSL_connect": (integer, [pointer]), "SSL_shutdown": (integer, [pointer]),
        "SSL_set_session": (integer, [pointer, pointer]), "SSL_session_reused": (integer, [pointer]),
        "SSL_get1_session": (pointer, [pointer]), "SSL_SESSION_free": (None, [pointer]),
        "SSL_write": (integer, [pointer, pointer, integer]), "SSL_read": (integer, [pointer, pointer, integer]),
        "i2d_SSL_SESSION": (integer, [pointer, ctypes.POINTER(pointer)]),
        "d2i_SSL_SESSION": (pointer, [pointer, ctypes.POINTER(pointer), long]),
        "SSL_SESSION_get0_ticket": (None, [pointer, ctypes.POINTER(pointer), ctypes.POINTER(size)]),
        "SSL_SESSION_set_max_early_data": (integer, [pointer, ctypes.c_uint32]),
        "SSL_write_early_data": (integer, [pointer, pointer, size, ctypes.POINTER(size)]),
        "SSL_get_early_data_status": (integer, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


SSL = library()
CONTEXTS = {}


def context(is_1_2):
    if is_1_2 not in CONTEXTS:
        made = SSL.SSL_CTX_new(SSL.TLS_client_method())
        if is_1_2:
            SSL.SSL_CTX_ctrl(made, SET_MAX_VERSION, TLS_1_2, None)
        CONTEXTS[is_1_2] = made
    return CONTEXTS[is_1_2]


def packed(session):
    """A session as the bytes of its ASN.1 form, and its ticket."""
    count = SSL.i2d_SSL_SESSION(session, None)
    buffer = ctypes.create_string_buffer(count)
    SSL.i2d_SSL_SESSION(session, ctypes.byref(ctypes.c_void_p(ctypes.addressof(buffer))))
    at, length = ctypes.c_void_p(), ctypes.c_size_t()
    SSL.SSL_SESSION_get0_ticket(session, ctypes.byref(at), ctypes.byref(length))
    return buffer.raw, ctypes.string_at(at, length.value) if length.value else b""


class Connection:
    """A connection whose handshake is done. `early` is sent ahead of it, whether the ticket allows it or not.

    Raises ConnectionError where the handshake or what follows fails."""

    def __init__(self, port, source, session=None, is_1_2=False, early=b"", name="localhost"):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", TIMEOUT_S, 0))
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", port))
        self.tls = SSL.SSL_new(context(is_1_2))
        SSL.SSL_set_fd(self.tls, self.socket.fileno())
        SSL.SSL_ctrl(self.tls, SET_HOST_NAME, 0, ctypes.c_char_p(name.encode()))
        if session:
            self.resume(session, early)
        if SSL.SSL_connect(self.tls) != 1:
            self.close()
            raise ConnectionError("the handshake failed")
        self.is_resumed = bool(SSL.SSL_session_reused(self.tls))
        self.early = EARLY_STATUS[SSL.SSL_get_early_data_status(self.tls)]

    def resume(self, session, early):
        begin = ctypes.create_string_buffer(session, len(session))
        made = SSL.d2i_SSL_SESSION(None, ctypes.byref(ctypes.c_void_p(ctypes.addressof(begin))), len(session))
        if not made:
            raise ValueError("OpenSSL does not take this for a session")
        if early:
            SSL.SSL_SESSION_set_max_early_data(made, 16_384)
        SSL.SSL_set_session(self.tls, made)
        SSL.SSL_SESSION_free(made)
        if early and SSL.SSL_write_early_data(self.tls, early, len(early), ctypes.byref(ctypes.c_size_t())) != 1:
            raise ConnectionError("no early data could be sent")

    def ask(self, request, body_bytes):
        """Status and body of a response with that many bytes."""
        SSL.SSL_write(self.tls, request, len(request))
        got, part = b"", ctypes.create_string_buffer(16_384)
        while b"\r\n\r\n" not in got or len(got.partition(b"\r\n\r\n")[2]) < body_bytes:
            count = SSL.SSL_read(self.tls, part, len(part))
            if count <= 0:
                raise ConnectionError("it ended within a response")
            got += part.raw[:count]
        head, _, body = got.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), body

    def session(self):
        """The newest session, to be used again, and the ticket in it."""
        session = SSL.SSL_get1_session(self.tls)
        try:
            return packed(session)
        finally:
            SSL.SSL_SESSION_free(session)

    def close(self):
        SSL.SSL_shutdown(self.tls)
        SSL.SSL_free(self.tls)
        self.socket.close()
