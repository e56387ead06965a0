# One Cloud Run service that runs the image. The push service, the pull workers and the flow-run worker are each one
# instance of this module; what differs between them is a variable.
terraform {
  required_providers {
    google = {
      source = "hashicorp/google"
    }
  }
}

resource "google_cloud_run_v2_service" "this" {
  name                = var.name
  location            = var.region
  ingress             = var.ingress
  deletion_protection = var.protected
  custom_audiences    = var.audiences

  template {
    service_account                  = var.service_account
    max_instance_request_concurrency = var.concurrency
    timeout                          = var.timeout
    # Only the second generation can mount a bucket.
    execution_environment = var.artifacts == null ? null : "EXECUTION_ENVIRONMENT_GEN2"

    scaling {
      min_instance_count = var.min_instances
      max_instance_count = var.max_instances
    }

    dynamic "volumes" {
      for_each = var.artifacts[*]
      content {
        name = "artifacts"
        gcs {
          bucket    = volumes.value.bucket
          read_only = false
          # The image's user. Otherwise root owns every file, and the steps cannot write.
          mount_options = ["uid=65532", "gid=65532"]
        }
      }
    }

    containers {
      image = var.image
      args  = var.args

      # Cloud Run sets PORT to it.
      ports {
        container_port = 8080
      }

      dynamic "volume_mounts" {
        for_each = var.artifacts[*]
        content {
          name       = "artifacts"
          mount_path = volume_mounts.value.path
        }
      }

      resources {
        limits            = { cpu = var.cpu, memory = var.memory }
        cpu_idle          = var.cpu_idle
        startup_cpu_boost = true
      }

      dynamic "env" {
        for_each = var.env
        content {
          name  = env.key
          value = env.value
        }
      }

      dynamic "env" {
        for_each = var.admin_token_secret[*]
        content {
          name = "ADMIN_TOKEN"
          value_source {
            secret_key_ref {
              secret  = env.value
              version = "latest"
            }
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
}
