"""Dead letters: messages that cannot succeed are stored whole, listed, replayed and purged here.

Owns the letter documents and their parts, letters published to DLQ_TOPIC, their attributes, and the letter filter.
Never decides whether a message is buried: `engine.poison_policy` does. Called by the engine, the API and the CLI.
"""
