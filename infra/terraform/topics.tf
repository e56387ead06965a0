resource "google_pubsub_topic" "events" {
  for_each = local.topics

  name       = each.key
  depends_on = [google_project_service.required]
}
