"""Message-retry exits for tests, as users write them."""

from postroom.channel.undelivered import RetryRequest, Stop, Wait

requests: list[RetryRequest] = []
"""What `until_third` was called with, the newest last."""


def until_third(request: RetryRequest) -> Wait | Stop:
    """Two more attempts, whatever the reason."""
    requests.append(request)
    return Wait(200) if request.attempt < 3 else Stop()


NOT_CALLABLE = 5
