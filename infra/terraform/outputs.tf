output "service_url" {
  description = "Where the push service answers, to those whom IAM lets in."
  value       = module.push.uri
}

output "push_audience" {
  description = "The audience of Pub/Sub's tokens."
  value       = local.push_audience
}

output "topics" {
  description = "Where producers publish."
  value       = { for name, topic in google_pubsub_topic.events : name => topic.id }
}

output "dlq_subscriptions" {
  description = "Where to look for what could not be delivered."
  value       = { for name, subscription in google_pubsub_subscription.dlq : name => subscription.id }
}

output "pull_workers" {
  description = "Which service pulls which subscriptions; with shards, the owner of each."
  value       = { for worker in local.pull_workers : worker.name => worker.subscriptions }
}

output "artifacts_bucket" {
  description = "Where steps put their files; null without flow_worker."
  value       = one(google_storage_bucket.artifacts[*].name)
}

output "flow_subscription" {
  description = "The subscription Eventarc made for flow runs, to have its deadline changed; null without flow_worker."
  value       = one(google_eventarc_trigger.flow[*].transport[0].pubsub[0].subscription)
}
