"""What all tests share: which of them are played, in what order, and what each costs."""

pytest_plugins = ["tests.sampling", "tests.scheduling", "tests.times"]
