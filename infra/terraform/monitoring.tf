# Alert policies. What is alerted on, and from where on, stands in src/millpond/alerts/alerts.json, from which
# Prometheus' rules and the dashboard's states come too; here is only where Cloud Monitoring finds each signal.
# What to do when one fires: docs/runbook.md, which the service serves at /runbook.

locals {
  alerts = jsondecode(file("${path.module}/../../src/millpond/alerts/alerts.json"))

  # Lines that are no messages' own have no `outcome`; a replay is a person's doing, and no delivery.
  of_messages = "jsonPayload.outcome:* AND NOT jsonPayload.ack_action=\"replay\""
  # Every failed try of a store call has a line, also one that succeeds when tried again; an instance writes ten such
  # lines a second at most, far more than any threshold asks for.
  of_failed_tries = "jsonPayload.reason=\"store_try_failed\""
  log_filters = {
    # Messages that views decided on, and those of them that at least one view called stale. `docs` has one element
    # for each view; a comparison holds if it holds for any element.
    events           = "${local.of_messages} AND jsonPayload.docs.outcome:*"
    stale            = "${local.of_messages} AND jsonPayload.docs.outcome=\"stale_ignored\""
    letters_buried   = "${local.of_messages} AND jsonPayload.write_kind=\"letter\""
    transient_errors = "${local.of_failed_tries} AND jsonPayload.error_type=\"Unavailable\""
    denied_errors    = "${local.of_failed_tries} AND jsonPayload.error_type=\"AccessDenied\""
  }

  # A case that is measured by view elsewhere is measured by topic here. Cloud Logging cannot pair the view and the
  # outcome of one element of `docs`, nor make a label of a repeated field. A message counts as stale if at least one
  # view of its topic said so, and every view of a topic decides on all of its messages: the share of the topic is
  # never less than that of its worst view. It is more only if different views ignore different messages.
  grouped_by = { view = "topic" }
  log_groups = merge([
    for alert in local.alerts.alerts : merge([
      for case in alert.cases : {
        for name in [case.signal, case.of] : name => local.grouped_by[case.by]
      } if contains(keys(case), "by")
    ]...)
  ]...)

  # The push service and the pull workers write the lines.
  log_services = join(" OR ", [
    for name in concat([var.name], [for worker in local.pull_workers : worker.name]) : "\"${name}\""
  ])

  # The signals in PromQL, which Cloud Monitoring speaks.
  log_metric = "logging_googleapis_com:user_${replace(var.name, "-", "_")}"
  log_labels = "{monitored_resource=\"cloud_run_revision\"}"
  requests   = "run_googleapis_com:request_count{monitored_resource=\"cloud_run_revision\",service_name=\"${var.name}\""

  alert_counters = merge(
    { for name in keys(local.log_filters) : name => "${local.log_metric}_${name}${local.log_labels}" },
    {
      push_requests = "${local.requests}}"
      # Without 429, which is how a full waiting room slows Pub/Sub down, and no fault of what was sent.
      push_4xx = "${local.requests},response_code_class=\"4xx\",response_code!=\"429\"}"
      push_5xx = "${local.requests},response_code_class=\"5xx\"}"
    },
  )

  subscriptions_regex = join("|", [for name in sort(keys(local.subscriptions)) : replace(name, ".", "[.]")])
  undelivered         = "pubsub_googleapis_com:subscription_num_undelivered_messages"
  oldest              = "pubsub_googleapis_com:subscription_oldest_unacked_message_age"
  alert_gauges = {
    backlog        = "${local.undelivered}{subscription_id=~\"${local.subscriptions_regex}\"}"
    dlq            = "${local.undelivered}{subscription_id=~\"(${local.subscriptions_regex})[.]dlq\"}"
    oldest_unacked = "${local.oldest}{subscription_id=~\"${local.subscriptions_regex}\"}"
  }

  # Each measure of a case, before it is compared. `%s` is the window, `%g` what is summed up apart. Nothing here can
  # look into the store: letters that were buried within the hour are taken to lie there, and those of the window to be
  # the growth.
  alert_measures = {
    level = merge(
      { for name, gauge in local.alert_gauges : name => "max by (subscription_id) (${gauge})" },
      { letters = "sum(increase(${local.alert_counters.letters_buried}[1h]))" },
    )
    growth = merge(
      { for name, gauge in local.alert_gauges : name => "max by (subscription_id) (delta(${gauge}[%s]))" },
      { letters = "sum(increase(${local.alert_counters.letters_buried}[%s]))" },
    )
    count = { for name, counter in local.alert_counters : name => "floor(sum%g(increase(${counter}[%s])))" }
    rate  = { for name, counter in local.alert_counters : name => "sum%g(rate(${counter}[%s])) * 60" }
    share = { for name, counter in local.alert_counters : name => "sum%g(rate(${counter}[%s]))" }
  }

  # What can fire: a case at a severity, with its query.
  alert_conditions = flatten([
    for alert in local.alerts.alerts : [
      for case in alert.cases : [
        for severity in ["warning", "critical"] : {
          alert    = alert.id
          title    = alert.title
          means    = alert.means
          case     = case.name
          severity = severity
          duration = "${lookup(case[severity], "for_s", 0)}s"
          query = replace(join(" ", compact([
            replace(local.alert_measures[case.measure][case.signal], "%s", "${lookup(case, "window_s", 0)}s"),
            case.measure == "share" ? "/ ${replace(local.alert_measures.share[case.of], "%s", "${case.window_s}s")}" : "",
            contains(keys(case[severity]), "above") ? "> ${case[severity].above}" : ">= ${case[severity].at_least}",
            # How much there must be at all, whatever the value.
            lookup(case, "least", 0) == 0 ? "" : join(" ", [
              "and",
              case.measure == "share"
              ? replace(local.alert_measures.count[case.signal], "%s", "${case.window_s}s")
              : local.alert_measures.level[case.signal],
              ">= ${case.least}",
            ]),
          ])), "%g", contains(keys(case), "by") ? " by (${local.grouped_by[case.by]}) " : "")
        } if contains(keys(case), severity) && contains(local.alerts.signals[case.signal].seen_by, "cloud")
      ]
    ]
  ])

  # One policy for each alert and severity; any of its cases opens the incident.
  alert_policies = { for condition in local.alert_conditions : "${condition.alert}-${condition.severity}" => condition... }
}

resource "google_logging_metric" "signal" {
  for_each = local.log_filters

  name        = "${replace(var.name, "-", "_")}_${each.key}"
  description = "Millpond: ${local.alerts.signals[each.key].names}."
  filter = join(" AND ", [
    "resource.type=\"cloud_run_revision\"",
    "resource.labels.service_name=(${local.log_services})",
    each.value,
  ])

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"

    dynamic "labels" {
      for_each = contains(keys(local.log_groups), each.key) ? [local.log_groups[each.key]] : []
      content {
        key         = labels.value
        value_type  = "STRING"
        description = "The ${labels.value} of the message."
      }
    }
  }

  label_extractors = (
    contains(keys(local.log_groups), each.key)
    ? { (local.log_groups[each.key]) = "EXTRACT(jsonPayload.${local.log_groups[each.key]})" }
    : null
  )

  depends_on = [google_project_service.required]
}

resource "google_monitoring_alert_policy" "alert" {
  for_each = local.alert_policies

  display_name          = "${var.name}: ${each.value[0].title} (${each.value[0].severity})"
  combiner              = "OR"
  severity              = upper(each.value[0].severity)
  notification_channels = var.alert_channels[each.value[0].severity]

  dynamic "conditions" {
    for_each = each.value
    content {
      display_name = "${conditions.value.alert}, ${conditions.value.case}"

      condition_prometheus_query_language {
        query               = conditions.value.query
        duration            = conditions.value.duration
        evaluation_interval = "60s"
        # A metric of log lines exists only when the first such line was written.
        disable_metric_validation = true
      }
    }
  }

  documentation {
    subject   = "${var.environment}: ${each.value[0].title} (${each.value[0].severity})"
    content   = "${each.value[0].means}\n\n[What to do](${module.push.uri}/runbook#${each.value[0].alert}), also in docs/runbook.md."
    mime_type = "text/markdown"
  }

  user_labels = {
    service     = var.name
    environment = var.environment
    alert       = each.value[0].alert
  }

  depends_on = [google_logging_metric.signal]
}
