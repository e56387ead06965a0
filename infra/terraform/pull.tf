# The pull workers: one service whose instances always run, with CPU, and take no requests but health checks.
module "pull" {
  source = "./modules/service"
  count  = length(local.pull_subscriptions) > 0 ? 1 : 0

  region    = var.region
  image     = var.image
  protected = var.protected
  cpu       = var.cpu

  name            = "${var.name}-pull"
  args            = concat(["pull"], flatten([for name in sort(keys(local.pull_subscriptions)) : ["--subscription", name]]))
  service_account = google_service_account.pull[0].email
  env             = local.pull_env
  ingress         = "INGRESS_TRAFFIC_INTERNAL_ONLY"
  memory          = var.memory
  # No request ever adds an instance, so the number is fixed.
  min_instances = var.pull_instances
  max_instances = var.pull_instances
  # Without a request there would be no CPU, and nothing would be pulled.
  cpu_idle = false

  depends_on = [
    google_project_iam_member.firestore,
    google_pubsub_subscription_iam_member.pull,
    google_project_service.required,
  ]
}
