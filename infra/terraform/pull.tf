# The pull workers: one service whose instances always run, with CPU, and take no requests but health checks.
resource "google_cloud_run_v2_service" "pull" {
  count = length(local.pull_subscriptions) > 0 ? 1 : 0

  name                = "${var.name}-pull"
  location            = var.region
  ingress             = "INGRESS_TRAFFIC_INTERNAL_ONLY"
  deletion_protection = var.protected

  template {
    service_account = google_service_account.pull[0].email

    # No request ever adds an instance, so the number is fixed.
    scaling {
      min_instance_count = var.pull_instances
      max_instance_count = var.pull_instances
    }

    containers {
      image = var.image
      args  = concat(["pull"], flatten([for name in sort(keys(local.pull_subscriptions)) : ["--subscription", name]]))

      ports {
        container_port = 8080
      }

      resources {
        limits = { cpu = var.cpu, memory = var.memory }
        # Without a request there would be no CPU, and nothing would be pulled.
        cpu_idle          = false
        startup_cpu_boost = true
      }

      dynamic "env" {
        for_each = local.pull_env
        content {
          name  = env.key
          value = env.value
        }
      }

      startup_probe {
        period_seconds    = 2
        timeout_seconds   = 2
        failure_threshold = 30
        http_get {
          path = "/ready"
        }
      }

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
    google_pubsub_subscription_iam_member.pull,
    google_project_service.required,
  ]
}
