"""Helpers of every adapter to Google Cloud: credentials, emulator addresses, resource names, error texts.

Used by the Firestore store, Pub/Sub letters, `ingress`, `doctor` and the CLI.
"""
