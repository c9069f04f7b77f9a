"""What all tests share: Hypothesis without deadlines, since no test asserts a time."""

from hypothesis import HealthCheck, settings

settings.register_profile("postroom", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("postroom")
