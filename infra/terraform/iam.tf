# Three accounts, each with what it needs and on nothing wider than it needs it; three more are in flow.tf. None
# has a key.

# Who the push service is.
resource "google_service_account" "runtime" {
  account_id   = "${var.name}-runtime"
  display_name = "Millpond, push service"
  depends_on   = [google_project_service.required]
}

# Who the pull workers are.
resource "google_service_account" "pull" {
  count = length(local.pull_subscriptions) > 0 ? 1 : 0

  account_id   = "${var.name}-pull"
  display_name = "Millpond, pull workers"
  depends_on   = [google_project_service.required]
}

# Who Pub/Sub is when it calls the push service. It may do that, and nothing else.
resource "google_service_account" "push" {
  account_id   = "${var.name}-push"
  display_name = "Pub/Sub, pushing to Millpond"
  depends_on   = [google_project_service.required]
}

locals {
  processes = merge(
    { runtime = google_service_account.runtime.member },
    { for account in google_service_account.pull : "pull" => account.member },
    { for account in google_service_account.flow : "flow" => account.member },
  )
  # Pairs of process and subscription, where poison is published to the DLQ.
  burials = var.letters == "topic" ? merge(
    { for name in keys(local.push_subscriptions) : name => "runtime" },
    { for name in keys(local.pull_subscriptions) : name => "pull" },
  ) : {}
}

# Documents of this database, and of no other in the project.
resource "google_project_iam_member" "firestore" {
  for_each = local.processes

  project = var.project
  role    = "roles/datastore.user"
  member  = each.value

  condition {
    title      = "${var.name}-database"
    expression = "resource.name == \"projects/${var.project}/databases/${var.firestore_database}\""
  }
}

resource "google_secret_manager_secret_iam_member" "admin_token" {
  secret_id  = var.admin_token_secret
  role       = "roles/secretmanager.secretAccessor"
  member     = google_service_account.runtime.member
  depends_on = [google_project_service.required]
}

resource "google_cloud_run_v2_service_iam_member" "push" {
  name     = module.push.name
  location = var.region
  role     = "roles/run.invoker"
  member   = google_service_account.push.member
}

resource "google_pubsub_subscription_iam_member" "pull" {
  for_each = local.pull_subscriptions

  subscription = google_pubsub_subscription.pull[each.key].name
  role         = "roles/pubsub.subscriber"
  member       = google_service_account.pull[0].member
}

resource "google_pubsub_topic_iam_member" "bury" {
  for_each = local.burials

  topic  = google_pubsub_topic.dlq[each.key].name
  role   = "roles/pubsub.publisher"
  member = local.processes[each.value]
}

# Pub/Sub itself: to mint the push token, to publish to a DLQ, and to take from the subscription what it moved.

resource "google_service_account_iam_member" "push_token" {
  service_account_id = google_service_account.push.name
  role               = "roles/iam.serviceAccountOpenIdTokenCreator"
  member             = local.pubsub_agent
}

resource "google_pubsub_topic_iam_member" "dlq" {
  for_each = local.subscriptions

  topic  = google_pubsub_topic.dlq[each.key].name
  role   = "roles/pubsub.publisher"
  member = local.pubsub_agent
}

resource "google_pubsub_subscription_iam_member" "dlq" {
  for_each = local.subscriptions

  subscription = (
    each.value.delivery == "push"
    ? google_pubsub_subscription.push[each.key].name
    : google_pubsub_subscription.pull[each.key].name
  )
  role   = "roles/pubsub.subscriber"
  member = local.pubsub_agent
}

# People and producers.

resource "google_pubsub_topic_iam_member" "publisher" {
  for_each = {
    for pair in setproduct(local.topics, var.publishers) : "${pair[0]} ${pair[1]}" => { topic = pair[0], member = pair[1] }
  }

  topic  = google_pubsub_topic.events[each.value.topic].name
  role   = "roles/pubsub.publisher"
  member = each.value.member
}

resource "google_cloud_run_v2_service_iam_member" "operator" {
  for_each = var.operators

  name     = module.push.name
  location = var.region
  role     = "roles/run.invoker"
  member   = each.key
}

resource "google_pubsub_subscription_iam_member" "operator" {
  for_each = {
    for pair in setproduct(keys(local.subscriptions), var.operators) : "${pair[0]} ${pair[1]}" => { name = pair[0], member = pair[1] }
  }

  subscription = google_pubsub_subscription.dlq[each.value.name].name
  role         = "roles/pubsub.subscriber"
  member       = each.value.member
}
