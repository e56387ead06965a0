locals {
  push_path = "/pubsub/push"
  # Known before the service exists, so that the service can be told which audience to expect.
  push_audience = "https://${var.name}-${data.google_project.this.number}.${var.region}.run.app${local.push_path}"

  # Pub/Sub moves messages to DLQs, and mints push tokens, as this account.
  pubsub_agent = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"

  # What every process is told. docs/settings.md says what each means.
  env = merge(
    {
      STORE               = "firestore"
      GCP_PROJECT         = var.project
      ENV                 = var.environment
      SYSTEM_EVENTS_TOPIC = var.system_events_topic
      DEFAULT_REGION      = var.region
      FIRESTORE_DATABASE  = var.firestore_database
      BUILT_IN_VIEWS      = var.built_in_views
      EVENT_LOG_TTL_DAYS  = coalesce(var.event_log_ttl_days, 0) == 0 ? "off" : tostring(var.event_log_ttl_days)
      # Poison is kept at once and never retried; the DLQs are for what 20 deliveries could not settle.
      POISON_POLICY = "park"
      ROUTES        = jsonencode(local.routes)
    },
    # Without any, what the image itself says holds.
    length(var.views) == 0 ? {} : { VIEWS = join(",", var.views) },
    var.collection_prefix == "" ? {} : { FIRESTORE_COLLECTION_PREFIX = var.collection_prefix },
    # An earlier image, to which you may go back, does not know the word for the default.
    var.receipts == "all" ? {} : { RECEIPTS = var.receipts },
    var.letters == "store" ? {} : { DLQ_TOPIC = "{subscription}.dlq" },
  )

  push_env = merge(
    local.env,
    { CONSUMER_QUEUE_SIZE = tostring(var.concurrency) },
    # Cloud Run admits only the push account, and may hand a token on without its signature: then a
    # second check could only fail.
    var.verify_push ? {
      PUSH_UNAUTHENTICATED = "refuse"
      PUSH_AUDIENCE        = local.push_audience
      PUSH_SERVICE_ACCOUNT = google_service_account.push.email
    } : { PUSH_UNAUTHENTICATED = "allow" },
  )

  # The workers take no pushes and listen only for health checks; IAM names no account that may call them.
  pull_env = merge(local.env, { CONSUMER_QUEUE_SIZE = tostring(var.pull_queue_size) })
}
