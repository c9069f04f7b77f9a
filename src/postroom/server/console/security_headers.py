"""Headers of every answer of the console: nothing comes from elsewhere, nothing goes elsewhere, no inline
script or style, no page of another site around it."""

from typing import Final

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
ALWAYS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with "no-referrer" forms have the origin "null", which is refused
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
PAGE: Final = {**ALWAYS, "cache-control": "no-store"}
FOREVER: Final = {**ALWAYS, "cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
REPORT: Final = {
    **PAGE,
    "content-security-policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline';"
    " style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'",
}
"""Of the audit's report, which has its script and style in itself: it is nobody's page, as from elsewhere."""
