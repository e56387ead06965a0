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
  expiring = ["ops_dedupe", "market_ticks", "dead_letters", "parts", "millpond_event_log", "ops_history"]

  # Fields that no query uses. An index costs a write for each document, and one over ever-growing times sends all
  # writes to one server: about 500 a second is then the limit of the whole collection. What is not named here keeps
  # Firestore's own indexes. A map's fields follow the map.
  unindexed = {
    # Every message leaves a receipt, and receipts are only ever read by id: all fields. One by one, because the
    # provider cannot set `*`.
    ops_dedupe = ["messageId", "topic", "outcome", "reason", "views", "createdAt"]

    market_ticks        = ["eventTime", "producedAt", "publishedAt", "ingestedAt", "data", "source"]
    market_ticks_latest = ["lastTickAt", "source"]
    # `ts`, the minute, stays: charts ask by it.
    market_bars_1m = ["start", "end", "eventTime", "producedAt", "publishedAt", "ingestedAt", "data", "source"]
    minutes        = ["start", "end", "eventTime", "producedAt", "publishedAt", "ingestedAt", "data", "source"]
    # `updatedAt`, `createdAt` and `decisionAt` stay: signals are few, and listed by time.
    trade_signals    = ["eventTime", "producedAt", "publishedAt", "ingestedAt", "data", "source"]
    ingest_pipelines = ["data", "source"]
    ops_services     = ["source"]

    dead_letters = ["delivery", "attributes", "error"]
    parts        = ["delivery"]
    # Searched by `messageId`, `eventId`, `topic` and `outcome`, and read by `arrivedAt`: an index on a time that grows
    # takes about 500 writes a second, so with EVENT_LOG=on a database takes no more messages than that.
    millpond_event_log = ["body"]
    ops_history        = ["minutes"]
  }

  # Below documents, where the prefix does not reach: parts of letters, and bars where BARS_ID is nested.
  below_documents = ["parts", "minutes"]
  collection_id = {
    for name in distinct(concat(local.expiring, keys(local.unindexed))) :
    name => contains(local.below_documents, name) ? name : "${var.collection_prefix}${name}"
  }
}

resource "google_firestore_field" "ttl" {
  for_each = toset(local.expiring)

  database   = var.firestore_database
  collection = local.collection_id[each.key]
  field      = "expireAt"

  ttl_config {}
  index_config {}

  depends_on = [google_firestore_database.this]
}

resource "google_firestore_field" "unindexed" {
  for_each = merge([
    for collection, fields in local.unindexed : {
      for field in fields : "${collection}.${field}" => { collection = collection, field = field }
    }
  ]...)

  database   = var.firestore_database
  collection = local.collection_id[each.value.collection]
  field      = each.value.field

  # Empty: no index at all.
  index_config {}

  depends_on = [google_firestore_database.this]
}
