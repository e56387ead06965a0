# The pull workers: services whose instances always run, with CPU, and take no requests but health checks. How many
# there are, and what each pulls: shards.tf.
module "pull" {
  source = "./modules/service"
  count  = length(local.pull_workers)

  region    = var.region
  image     = var.image
  protected = var.protected
  cpu       = var.cpu

  name            = local.pull_workers[count.index].name
  args            = concat(["pull"], flatten([for name in local.pull_workers[count.index].subscriptions : ["--subscription", name]]))
  service_account = google_service_account.pull[0].email
  env             = local.pull_env
  ingress         = "INGRESS_TRAFFIC_INTERNAL_ONLY"
  memory          = var.memory
  # No request ever adds an instance, so the number is fixed.
  min_instances = local.pull_workers[count.index].instances
  max_instances = local.pull_workers[count.index].instances
  # Without a request there would be no CPU, and nothing would be pulled.
  cpu_idle = false

  depends_on = [
    google_project_iam_member.firestore,
    google_pubsub_subscription_iam_member.pull,
    google_project_service.required,
  ]
}
