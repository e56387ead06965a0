"""From deliveries to commits: `queue` admits, batches and answers; `committer` reads, plans, commits and heals.

Owns waiting, batching, retries, conflicts and the snapshot cache. Documents are decided by `core.plan`, not here.
Never acknowledges what is not durable, and never knows HTTP, Pub/Sub or a concrete store.
Called by `ingress`, `service` and `reprocess`.
"""
