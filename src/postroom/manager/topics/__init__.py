"""Topics and subscriptions: made, found and ended, and which of them a published message goes to."""
