# What each entry of `subscriptions` is in Pub/Sub, and which worker pulls it: docs/pull.md, An owner for each key.

locals {
  # An entry with `shards` is several subscriptions. `-rest` takes every message that no shard takes: without the
  # attribute, or with a value that is none of the shards. Pub/Sub acknowledges a message that no filter matches, so
  # without `-rest` it would be lost. Its filter names every shard, and Pub/Sub allows 256 bytes: 8 shards at most.
  whole = {
    for name, s in var.subscriptions : name => {
      topic = s.topic, kind = coalesce(s.kind, s.topic), delivery = s.delivery, filter = null, worker = null
    } if s.shards == null
  }
  sharded = merge([
    for name, s in var.subscriptions : merge(
      {
        for shard in range(s.shards) : "${name}-${shard}" => {
          topic  = s.topic, kind = coalesce(s.kind, s.topic), delivery = s.delivery
          filter = "attributes.shard = \"${shard}\""
          # By the shard's number alone: where a view feeds on two topics with as many shards, one worker owns the
          # documents of a key.
          worker = shard % var.pull_instances
        }
      },
      {
        "${name}-rest" = {
          topic  = s.topic, kind = coalesce(s.kind, s.topic), delivery = s.delivery
          filter = join(" AND ", [for shard in range(s.shards) : "NOT attributes.shard = \"${shard}\""])
          worker = null
        }
      },
    ) if s.shards != null
  ]...)

  subscriptions      = merge(local.whole, local.sharded)
  push_subscriptions = { for name, s in local.subscriptions : name => s if s.delivery == "push" }
  pull_subscriptions = { for name, s in local.subscriptions : name => s if s.delivery == "pull" }
  topics             = toset([for s in values(var.subscriptions) : s.topic])

  # So that producers need not name the topic in every message.
  routes = { for name, s in local.subscriptions : name => { kind = s.kind, topic = s.topic } }

  # Without shards the workers are the instances of one service, and all pull the same. With shards each worker is a
  # service with one instance, because Cloud Run gives every instance of a service the same arguments. Each pulls the
  # shards that it owns, and whatever has no owner. The first keeps its name, so that it is updated and not replaced.
  pull_services = length(local.pull_subscriptions) == 0 ? 0 : length(local.sharded) == 0 ? 1 : var.pull_instances
  pull_workers = [
    for worker in range(local.pull_services) : {
      name          = worker == 0 ? "${var.name}-pull" : "${var.name}-pull-${worker}"
      instances     = length(local.sharded) == 0 ? var.pull_instances : 1
      subscriptions = sort([for name, s in local.pull_subscriptions : name if s.worker == null || s.worker == worker])
    }
  ]
}
