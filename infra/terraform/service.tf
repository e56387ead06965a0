# The push service: Pub/Sub posts to it. IAM lets only Pub/Sub and operators call it.
module "push" {
  source = "./modules/service"

  region    = var.region
  image     = var.image
  protected = var.protected
  cpu       = var.cpu

  name               = var.name
  args               = ["serve"]
  service_account    = google_service_account.runtime.email
  env                = local.push_env
  admin_token_secret = var.admin_token_secret
  ingress            = var.ingress
  audiences          = [local.push_audience]
  memory             = var.memory
  min_instances      = var.min_instances
  max_instances      = var.max_instances
  cpu_idle           = var.min_instances == 0
  concurrency        = var.concurrency
  # As long as Pub/Sub waits. Millpond answers within FIRESTORE_RETRY_MAX_TOTAL_S, 8 s.
  timeout = "60s"

  depends_on = [
    google_project_iam_member.firestore,
    google_secret_manager_secret_iam_member.admin_token,
    google_project_service.required,
  ]
}

# States written before the three services became one module: the services are renamed, not destroyed and made again.

moved {
  from = google_cloud_run_v2_service.push
  to   = module.push.google_cloud_run_v2_service.this
}

moved {
  from = google_cloud_run_v2_service.pull[0]
  to   = module.pull[0].google_cloud_run_v2_service.this
}

moved {
  from = google_cloud_run_v2_service.flow[0]
  to   = module.flow[0].google_cloud_run_v2_service.this
}
