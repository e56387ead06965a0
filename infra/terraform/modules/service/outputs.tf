output "name" {
  description = "Name of the service, known once it exists."
  value       = google_cloud_run_v2_service.this.name
}

output "uri" {
  description = "Where the service answers."
  value       = google_cloud_run_v2_service.this.uri
}
