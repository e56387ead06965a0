"""Where messages that can never succeed are kept."""
