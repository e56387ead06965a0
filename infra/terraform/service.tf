# The push service: Pub/Sub posts to it. Nobody else may call it, but operators.
resource "google_cloud_run_v2_service" "push" {
  name                = var.name
  location            = var.region
  ingress             = var.ingress
  deletion_protection = var.protected
  custom_audiences    = [local.push_audience]

  template {
    service_account                  = google_service_account.runtime.email
    max_instance_request_concurrency = var.concurrency
    # As long as Pub/Sub waits. Millpond answers within FIRESTORE_RETRY_MAX_TOTAL_S, 8 s.
    timeout = "60s"

    scaling {
      min_instance_count = var.min_instances
      max_instance_count = var.max_instances
    }

    containers {
      image = var.image
      args  = ["serve"]

      # Cloud Run sets PORT to it.
      ports {
        container_port = 8080
      }

      resources {
        limits            = { cpu = var.cpu, memory = var.memory }
        cpu_idle          = var.min_instances == 0
        startup_cpu_boost = true
      }

      dynamic "env" {
        for_each = local.push_env
        content {
          name  = env.key
          value = env.value
        }
      }

      env {
        name = "ADMIN_TOKEN"
        value_source {
          secret_key_ref {
            secret  = var.admin_token_secret
            version = "latest"
          }
        }
      }

      # Ready when Firestore answers: a revision that cannot reach it never gets traffic.
      startup_probe {
        period_seconds    = 2
        timeout_seconds   = 2
        failure_threshold = 30
        http_get {
          path = "/ready"
        }
      }

      # Not /ready: an outage of Firestore must not restart instances that will be needed after it.
      liveness_probe {
        period_seconds    = 10
        timeout_seconds   = 3
        failure_threshold = 3
        http_get {
          path = "/live"
        }
      }
    }
  }

  depends_on = [
    google_project_iam_member.firestore,
    google_secret_manager_secret_iam_member.admin_token,
    google_project_service.required,
  ]
}
