# Millpond on Google Cloud: one project per environment, its values in environments/*.tfvars.
# How to apply it, and what of it has been run: docs/deploy.md.
terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source = "hashicorp/google"
      # 7.5 mounts buckets for a user other than root.
      version = ">= 7.5, < 8.0"
    }
  }

  # The bucket is given by `terraform init -backend-config=bucket=…`: every environment has its own state.
  backend "gcs" {
    prefix = "millpond"
  }
}

provider "google" {
  project = var.project
  region  = var.region
}

data "google_project" "this" {
  project_id = var.project
}

resource "google_project_service" "required" {
  for_each = toset(concat(
    [
      "firestore.googleapis.com",
      "iam.googleapis.com",
      "logging.googleapis.com",
      "monitoring.googleapis.com",
      "pubsub.googleapis.com",
      "run.googleapis.com",
      "secretmanager.googleapis.com",
    ],
    var.flow_worker ? [
      "cloudscheduler.googleapis.com",
      "eventarc.googleapis.com",
      "eventarcpublishing.googleapis.com",
      "storage.googleapis.com",
    ] : [],
  ))

  service = each.key
  # Others in the project may use them too.
  disable_on_destroy = false
}
