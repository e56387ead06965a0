# One DLQ per subscription, because what one consumer cannot settle another may. A topic keeps nothing for
# subscriptions that do not exist yet, so each has its own from the start. Both keep messages for 14 days.

resource "google_pubsub_topic" "dlq" {
  for_each = local.subscriptions

  name                       = "${each.key}.dlq"
  message_retention_duration = "1209600s"
  depends_on                 = [google_project_service.required]
}

resource "google_pubsub_subscription" "dlq" {
  for_each = local.subscriptions

  name                       = "${each.key}.dlq"
  topic                      = google_pubsub_topic.dlq[each.key].id
  ack_deadline_seconds       = 60
  message_retention_duration = "1209600s"

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  expiration_policy {
    ttl = ""
  }
}
