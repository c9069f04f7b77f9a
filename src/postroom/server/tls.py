"""The TLS of listeners, and of connections that the broker opens: 1.2 and 1.3, forward secrecy, AEAD."""

import ssl
from typing import Final, TypeVar

CIPHERS: Final = "@SECLEVEL=2:ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2, as OpenSSL writes them; those of 1.3 are all of this kind. RSA takes 2048 bits at least."""

Context = TypeVar("Context", bound=ssl.SSLContext)


def restricted(context: Context) -> Context:
    """``context``, which speaks this and nothing else from now on."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    return context


def no_password() -> str:
    """For encrypted keys: the terminal is never asked, so they can't be used."""
    return ""


def reason_of(error: OSError) -> str:
    """Why a file can't be used, in OpenSSL's words or those of the system."""
    return error.strerror or str(error)
