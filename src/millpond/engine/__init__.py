"""From deliveries to commits: `queue` admits, batches and answers; `committer` reads, plans, commits and retries.

Owns waiting, batching, retries, conflicts and the snapshot cache. `core.plan` decides what documents become.
Never acknowledges a message before it is durable, and knows nothing of HTTP, Pub/Sub or a concrete store.
Called by `ingress`, `service` and `reprocess`.
"""
