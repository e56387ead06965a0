# The flow-run worker, where `flow_worker` is true: Eventarc posts each change of a run to it, and Cloud Scheduler has
# the runs swept. What a flow run is: docs/flow.md.

locals {
  flow = var.flow_worker ? 1 : 0

  steps_env = merge(
    local.env,
    length(var.flow_steps) == 0 ? {} : { STEPS = join(",", var.flow_steps) },
  )

  flow_env = merge(
    local.steps_env,
    {
      FLOW_STEPS_AT_ONCE      = tostring(var.flow_concurrency)
      CONSUMER_QUEUE_SIZE     = tostring(var.flow_concurrency)
      ARTIFACTS_DIR           = "/artifacts"
      CHARTS_DEFAULT_TIMEZONE = var.charts_default_timezone
      # Cloud Run admits only the trigger's account and operators. `verify_push` is about Pub/Sub's pushes.
      PUSH_UNAUTHENTICATED = "allow"
    },
  )
}

# Apart from the push service, whose requests take at most a minute: a step may take ten, and pushes must not wait
# behind it.
module "flow" {
  source = "./modules/service"
  count  = local.flow

  region    = var.region
  image     = var.image
  protected = var.protected
  cpu       = var.cpu

  name               = "${var.name}-flow"
  args               = ["serve"]
  service_account    = google_service_account.flow[0].email
  env                = local.flow_env
  admin_token_secret = var.admin_token_secret
  artifacts          = { bucket = google_storage_bucket.artifacts[0].name, path = local.flow_env.ARTIFACTS_DIR }
  ingress            = var.ingress
  memory             = var.flow_memory
  min_instances      = 0
  max_instances      = var.flow_max_instances
  # As many as there are places for steps: Cloud Run sends further requests to another instance.
  concurrency = var.flow_concurrency
  # The longest Eventarc's subscription can wait, and FLOW_STEP_MAX_S.
  timeout = "600s"
  # Eventarc hangs up when its deadline is over, 10 s unless changed, and the request then counts as ended. A step that
  # goes on must still have CPU: to work, and to renew its lease. Without CPU it would be frozen, another instance would
  # take it over and begin it again.
  cpu_idle = false

  depends_on = [
    google_project_iam_member.firestore,
    google_secret_manager_secret_iam_member.flow_admin_token,
    google_storage_bucket_iam_member.artifacts,
    google_project_service.required,
  ]
}

# What steps make. Like the database: where `protected`, not deleted with anything in it, and seven days to regret.
resource "google_storage_bucket" "artifacts" {
  count = local.flow

  # Names are the whole world's, project ids too.
  name                        = "${var.project}-${var.name}-artifacts"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = !var.protected

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age = var.artifacts_days
    }
  }

  soft_delete_policy {
    retention_duration_seconds = var.protected ? 604800 : 0
  }

  depends_on = [google_project_service.required]
}

resource "google_eventarc_trigger" "flow" {
  count = local.flow

  name = "${var.name}-flow"
  # The database's own, also where that is a multi-region; the service may be elsewhere.
  location                = var.firestore_location
  service_account         = google_service_account.events[0].email
  event_data_content_type = "application/protobuf"

  matching_criteria {
    attribute = "type"
    value     = "google.cloud.firestore.document.v1.updated"
  }

  matching_criteria {
    attribute = "database"
    value     = var.firestore_database
  }

  # Without the operator, only a run whose id is the text `{run}` would match.
  matching_criteria {
    attribute = "document"
    operator  = "match-path-pattern"
    value     = "${var.collection_prefix}flow_runs/{run}"
  }

  destination {
    cloud_run_service {
      service = module.flow[0].name
      region  = var.region
      path    = "/events"
    }
  }

  depends_on = [
    google_cloud_run_v2_service_iam_member.events,
    google_firestore_database.this,
    google_project_iam_member.events,
    google_project_service.required,
    google_service_account_iam_member.events_token,
  ]
}

# The sweep, for steps whose worker went silent and for events that were lost.
resource "google_cloud_run_v2_job" "sweep" {
  count = local.flow

  name                = "${var.name}-sweep"
  location            = var.region
  deletion_protection = var.protected

  template {
    template {
      service_account = google_service_account.flow[0].email
      # The next sweep is the retry. Two at once do no harm.
      max_retries = 0
      timeout     = "900s"

      containers {
        image = var.image
        args  = ["flow", "sweep"]

        resources {
          limits = { cpu = var.cpu, memory = var.memory }
        }

        # With the worker's STEPS: it looks only for types it knows.
        dynamic "env" {
          for_each = local.steps_env
          content {
            name  = env.key
            value = env.value
          }
        }
      }
    }
  }

  depends_on = [
    google_project_iam_member.firestore,
    google_project_service.required,
  ]
}

resource "google_cloud_scheduler_job" "sweep" {
  count = local.flow

  name             = "${var.name}-sweep"
  region           = var.region
  schedule         = "*/5 * * * *"
  time_zone        = "Etc/UTC"
  attempt_deadline = "60s"

  http_target {
    http_method = "POST"
    uri         = "https://run.googleapis.com/v2/${google_cloud_run_v2_job.sweep[0].id}:run"

    # OAuth, not OIDC: Google's own API is called.
    oauth_token {
      service_account_email = google_service_account.sweep[0].email
    }
  }

  depends_on = [
    google_cloud_run_v2_job_iam_member.sweep,
    google_project_service.required,
  ]
}

# Who the worker and the sweep are.
resource "google_service_account" "flow" {
  count = local.flow

  account_id   = "${var.name}-flow"
  display_name = "Millpond, flow-run worker"
  depends_on   = [google_project_service.required]
}

# Who Eventarc is when it calls the worker.
resource "google_service_account" "events" {
  count = local.flow

  account_id   = "${var.name}-events"
  display_name = "Eventarc, calling Millpond"
  depends_on   = [google_project_service.required]
}

# Who Cloud Scheduler is when it starts the sweep.
resource "google_service_account" "sweep" {
  count = local.flow

  account_id   = "${var.name}-sweep"
  display_name = "Cloud Scheduler, sweeping Millpond's flow runs"
  depends_on   = [google_project_service.required]
}

resource "google_storage_bucket_iam_member" "artifacts" {
  count = local.flow

  bucket = google_storage_bucket.artifacts[0].name
  role   = "roles/storage.objectUser"
  member = google_service_account.flow[0].member
}

resource "google_secret_manager_secret_iam_member" "flow_admin_token" {
  count = local.flow

  secret_id  = var.admin_token_secret
  role       = "roles/secretmanager.secretAccessor"
  member     = google_service_account.flow[0].member
  depends_on = [google_project_service.required]
}

# On the project, since nothing narrower can be named. It lets events of the project be received, and nothing be read.
resource "google_project_iam_member" "events" {
  count = local.flow

  project = var.project
  role    = "roles/eventarc.eventReceiver"
  member  = google_service_account.events[0].member
}

resource "google_cloud_run_v2_service_iam_member" "events" {
  count = local.flow

  name     = module.flow[0].name
  location = var.region
  role     = "roles/run.invoker"
  member   = google_service_account.events[0].member
}

# Eventarc delivers through Pub/Sub, which mints the tokens. Projects from before April 2021 do not let it otherwise.
resource "google_service_account_iam_member" "events_token" {
  count = local.flow

  service_account_id = google_service_account.events[0].name
  role               = "roles/iam.serviceAccountOpenIdTokenCreator"
  member             = local.pubsub_agent
}

resource "google_cloud_run_v2_job_iam_member" "sweep" {
  count = local.flow

  name     = google_cloud_run_v2_job.sweep[0].name
  location = var.region
  role     = "roles/run.invoker"
  member   = google_service_account.sweep[0].member
}

resource "google_cloud_run_v2_service_iam_member" "flow_operator" {
  for_each = var.flow_worker ? var.operators : []

  name     = module.flow[0].name
  location = var.region
  role     = "roles/run.invoker"
  member   = each.key
}
