resource "google_firestore_database" "this" {
  count = var.create_database ? 1 : 0

  name                              = var.firestore_database
  location_id                       = var.firestore_location
  type                              = "FIRESTORE_NATIVE"
  point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_${var.protected ? "ENABLED" : "DISABLED"}"
  delete_protection_state           = "DELETE_PROTECTION_${var.protected ? "ENABLED" : "DISABLED"}"
  depends_on                        = [google_project_service.required]
}

locals {
  # Collections whose documents expire: Firestore deletes them within a day or so after `expireAt`.
  expiring = [
    "ops_dedupe", "market_ticks", "dead_letters", "parts", "ops_history",
    "millpond_event_segments", "millpond_event_log",
  ]

  # Fields that no query uses, and among them every time that Millpond writes: an index costs a write for each document,
  # and one over ever-growing times sends all writes to one server, so that about 500 a second are the limit of the whole
  # collection. What is not named here keeps Firestore's own indexes, and so does what `indexed` names. A map's fields
  # follow the map. `expireAt` is exempt wherever it has a TTL policy.
  unindexed = {
    # Every message leaves a receipt, and receipts are only ever read by id: all fields. One by one, because the
    # provider cannot set `*`.
    ops_dedupe = ["messageId", "topic", "outcome", "reason", "views", "createdAt"]

    ops_services        = ["lastHeartbeatAt", "updatedAt", "source"]
    ingest_pipelines    = ["lastHeartbeatAt", "updatedAt", "data", "source"]
    market_ticks        = ["eventTime", "producedAt", "publishedAt", "ingestedAt", "data", "source"]
    market_ticks_latest = ["lastTickAt", "source"]
    market_bars_1m      = ["ts", "start", "end", "eventTime", "producedAt", "publishedAt", "ingestedAt", "data", "source"]
    minutes             = ["ts", "start", "end", "eventTime", "producedAt", "publishedAt", "ingestedAt", "data", "source"]
    trade_signals = [
      "createdAt", "decisionAt", "updatedAt", "eventTime", "producedAt", "publishedAt", "ingestedAt", "data", "source",
    ]

    dead_letters = ["publishTime", "buriedAt", "replayedAt", "edits", "delivery", "attributes", "error"]
    parts        = ["delivery", "data"]
    ops_rebuilds = ["rebuiltAt"]
    flow_runs    = ["steps", "millpond"]
    ops_history  = ["hour", "minutes", "operations"]
    # Found by `ids` and counted by `counts`, which keep their indexes.
    millpond_event_segments = ["body", "n", "from", "to"]
    # Of earlier releases, which wrote a document for each message. Searched by `messageId`, `eventId`, `topic` and
    # `outcome`, and read by `arrivedAt`, which keeps its index. No longer written.
    millpond_event_log = ["body"]
  }

  # The same for views of your own: these two fields every view has, or may have.
  unindexed_of_views = {
    for name, view in var.view_collections : name => concat(["source", "ingestedAt"], view.unindexed)
  }

  # Below documents, where the prefix does not reach: parts of letters, and bars where BARS_ID is nested.
  below_documents = concat(["parts", "minutes"], [for name, view in var.view_collections : name if view.below_documents])
  collections     = distinct(concat(local.expiring, keys(local.unindexed), keys(var.view_collections)))
  collection_id = {
    for name in local.collections :
    name => contains(local.below_documents, name) ? name : "${var.collection_prefix}${name}"
  }

  # `expireAt` of each collection that has it, and whether documents expire by it. A view that begins to expire its
  # documents is changed in place: two resources for one field would undo each other.
  expire_fields = merge(
    { for name, view in var.view_collections : name => view.expires },
    { for name in local.expiring : name => true },
  )

  unindexed_fields = merge([
    for collection in local.collections : {
      for field in setunion(lookup(local.unindexed, collection, []), lookup(local.unindexed_of_views, collection, [])) :
      "${collection}.${field}" => { collection = collection, field = field }
      if field != "expireAt" && !contains(lookup(var.indexed, collection, []), field)
    }
  ]...)
}

resource "google_firestore_field" "ttl" {
  for_each = local.expire_fields

  database   = var.firestore_database
  collection = local.collection_id[each.key]
  field      = "expireAt"

  dynamic "ttl_config" {
    for_each = each.value ? [1] : []
    content {}
  }
  index_config {}

  depends_on = [google_firestore_database.this]
}

resource "google_firestore_field" "unindexed" {
  for_each = local.unindexed_fields

  database   = var.firestore_database
  collection = local.collection_id[each.value.collection]
  field      = each.value.field

  # Empty: no index at all.
  index_config {}

  depends_on = [google_firestore_database.this]
}
