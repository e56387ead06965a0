# Each: 60 s to acknowledge, retries after 10 to 600 s, and a dead-letter policy.

resource "google_pubsub_subscription" "push" {
  for_each = local.push_subscriptions

  name                       = each.key
  topic                      = google_pubsub_topic.events[each.value.topic].id
  ack_deadline_seconds       = 60
  message_retention_duration = "604800s"

  push_config {
    push_endpoint = "${module.push.uri}${local.push_path}"

    oidc_token {
      service_account_email = google_service_account.push.email
      audience              = local.push_audience
    }
  }

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.dlq[each.key].id
    max_delivery_attempts = var.max_delivery_attempts
  }

  # Otherwise it would be deleted after 31 days without a message.
  expiration_policy {
    ttl = ""
  }

  depends_on = [google_cloud_run_v2_service_iam_member.push]
}

resource "google_pubsub_subscription" "pull" {
  for_each = local.pull_subscriptions

  name  = each.key
  topic = google_pubsub_topic.events[each.value.topic].id
  # Pub/Sub cannot change a filter: another one deletes the subscription with all it holds, and makes it anew.
  filter                     = each.value.filter
  ack_deadline_seconds       = 60
  message_retention_duration = "604800s"

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.dlq[each.key].id
    max_delivery_attempts = var.max_delivery_attempts
  }

  expiration_policy {
    ttl = ""
  }
}
