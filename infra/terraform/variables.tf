# Without a default: differs between environments and stands in environments/*.tfvars. Only `image` changes with
# every release and is given on the command line.

variable "project" {
  description = "Google Cloud project, of this environment alone."
  type        = string
}

variable "environment" {
  description = "ENV: part of document ids."
  type        = string
}

variable "region" {
  description = "Where the services run; also DEFAULT_REGION."
  type        = string
}

variable "firestore_location" {
  description = "Where documents live: a region, or nam5, eur3. It can never be changed."
  type        = string
}

variable "image" {
  description = "The container image, by digest: …/millpond@sha256:…"
  type        = string

  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "Name the image by digest, so that what was tried is what runs."
  }
}

variable "min_instances" {
  description = "Push instances kept warm. 0 also gives them CPU during requests only."
  type        = number
}

variable "max_instances" {
  description = "Most push instances. Few: those that write the same documents wait for each other, see docs/scaling.md."
  type        = number
}

variable "pull_instances" {
  description = "Pull workers, always running. None are made without a pull subscription. Shards are dealt out among them: take a number that divides theirs."
  type        = number

  validation {
    condition     = var.pull_instances >= 1 && floor(var.pull_instances) == var.pull_instances
    error_message = "A whole number, at least 1: make a subscription push to do without workers."
  }
}

variable "protected" {
  description = "Refuse to delete services, database and files, and keep seven days of their history."
  type        = bool
}

# The same everywhere, unless an environment says otherwise.

variable "name" {
  description = "Name of the push service, and start of the other names."
  type        = string
  default     = "millpond"

  validation {
    # Service account ids have at most 30 characters, and `-runtime` is added.
    condition     = can(regex("^[a-z][a-z0-9-]{2,20}[a-z0-9]$", var.name))
    error_message = "Must be 4 to 22 lower-case letters, digits and hyphens, starting with a letter."
  }
}

variable "system_events_topic" {
  description = "SYSTEM_EVENTS_TOPIC: the kind of the system events' subscription."
  type        = string
  default     = "system.events"
}

variable "views" {
  description = "VIEWS: modules in the image with views of your own. docs/deploy.md, Deploy your view."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for module in var.views : can(regex("^[A-Za-z_][A-Za-z0-9_.]*$", module))])
    error_message = "Name modules as Python imports them, such as shop, without .py."
  }
}

variable "view_collections" {
  description = "Collections of those views, by their ids: fields that you do not query and that get no index, beside source, ingestedAt and expireAt; whether documents expire (retention_days); whether the collection is below documents, where collection_prefix does not reach. docs/deploy.md, Indexes."
  type = map(object({
    unindexed       = optional(list(string), [])
    expires         = optional(bool, false)
    below_documents = optional(bool, false)
  }))
  default = {}

  validation {
    condition     = alltrue([for name in keys(var.view_collections) : can(regex("^[^/]+$", name))])
    error_message = "Name a collection by its id, the last part of its path, without a slash."
  }
}

variable "indexed" {
  description = "Fields that keep their indexes because you query by them, by collection id; Millpond queries none of them. While a time is indexed, about 500 writes a second are the most the collection takes."
  type        = map(list(string))
  # A bar's minute, and the times by which signals are listed.
  default = {
    market_bars_1m = ["ts"]
    minutes        = ["ts"]
    trade_signals  = ["createdAt", "decisionAt", "updatedAt"]
  }
}

variable "built_in_views" {
  description = "BUILT_IN_VIEWS: all, none, or names separated by commas. Views that are not loaded must have no subscription."
  type        = string
  default     = "all"
}

variable "subscriptions" {
  description = "Subscription to its topic, delivery (push or pull), kind (the topic its views know, where the Pub/Sub topic has another name) and shards: parts of the keys with one pull worker each, for producers that set the attribute shard. Never change the shards of an entry: docs/pull.md, Change the number."
  type = map(object({
    topic    = string
    delivery = string
    kind     = optional(string)
    shards   = optional(number)
  }))
  default = {
    "millpond-system-events"    = { topic = "system.events", delivery = "push" }
    "millpond-ingest-heartbeat" = { topic = "ingest-heartbeat", delivery = "push" }
    "millpond-market-ticks"     = { topic = "market-ticks", delivery = "pull" }
    "millpond-market-bars-1m"   = { topic = "market-bars-1m", delivery = "push" }
    "millpond-trade-signals"    = { topic = "trade-signals", delivery = "push" }
  }

  validation {
    condition     = alltrue([for s in values(var.subscriptions) : contains(["push", "pull"], s.delivery)])
    error_message = "delivery must be push or pull."
  }

  validation {
    condition     = alltrue([for s in values(var.subscriptions) : s.shards == null || s.delivery == "pull"])
    error_message = "Only subscriptions with delivery = \"pull\" can have shards: Cloud Run gives a push to any instance."
  }

  validation {
    condition     = alltrue([for s in values(var.subscriptions) : contains(range(2, 9), coalesce(s.shards, 2))])
    error_message = "shards must be a whole number from 2 to 8; leave it out for one subscription that all workers pull."
  }

  validation {
    # A map refuses a second element with the same key.
    condition = can({
      for made in flatten([
        for name, s in var.subscriptions :
        s.shards == null ? [name] : [for end in concat(range(s.shards), ["rest"]) : "${name}-${end}"]
      ]) : made => true
    })
    error_message = "An entry has the name of a shard of another one: NAME with shards is NAME-0, NAME-1, … and NAME-rest."
  }
}

variable "max_delivery_attempts" {
  description = "Deliveries before Pub/Sub gives a message to the DLQ. Ten would end within an outage of an hour."
  type        = number
  default     = 20

  validation {
    condition     = var.max_delivery_attempts >= 5 && var.max_delivery_attempts <= 100
    error_message = "Pub/Sub allows 5 to 100."
  }
}

variable "letters" {
  description = "Where poison is buried: store (dead_letters, with look, replay and purge) or topic (the subscription's DLQ)."
  type        = string
  default     = "store"

  validation {
    condition     = contains(["store", "topic"], var.letters)
    error_message = "letters must be store or topic."
  }
}

variable "event_log_ttl_days" {
  description = "EVENT_LOG_TTL_DAYS: days until the event log's entries are deleted; 0 or null keeps them for ever. A rebuild can use only what is kept."
  type        = number
  default     = 30

  validation {
    condition     = coalesce(var.event_log_ttl_days, 0) >= 0
    error_message = "Must be 0 or more days, or null."
  }
}

variable "receipts" {
  description = "RECEIPTS: which events leave a receipt of their own: all, tallies (only those of views that count), or message (one for each message). docs/ordering.md."
  type        = string
  default     = "all"

  validation {
    condition     = contains(["all", "tallies", "message"], var.receipts)
    error_message = "receipts must be all, tallies or message."
  }
}

variable "create_database" {
  description = "Make the Firestore database; false where it exists already."
  type        = bool
  default     = true
}

variable "firestore_database" {
  description = "FIRESTORE_DATABASE."
  type        = string
  default     = "(default)"
}

variable "collection_prefix" {
  description = "FIRESTORE_COLLECTION_PREFIX: put before the name of every top-level collection."
  type        = string
  default     = ""
}

variable "concurrency" {
  description = "Requests at once per push instance; also CONSUMER_QUEUE_SIZE, so that Cloud Run adds an instance before one refuses. Many: all that wait share one commit, and another instance would write the same documents."
  type        = number
  default     = 250
}

variable "pull_queue_size" {
  description = "CONSUMER_QUEUE_SIZE of a pull worker: messages under way at once, over all of its subscriptions in equal shares. Eight shards and the rest leave each a ninth of it."
  type        = number
  default     = 512
}

variable "cpu" {
  description = "CPUs of an instance. Millpond is one process on one core."
  type        = string
  default     = "1"
}

variable "memory" {
  description = "Memory of an instance."
  type        = string
  default     = "512Mi"
}

variable "ingress" {
  description = "Who reaches the push service and the flow-run worker at all: INGRESS_TRAFFIC_INTERNAL_ONLY lets Pub/Sub and Eventarc of this project in; INGRESS_TRAFFIC_ALL lets operators use the API from outside. Either way IAM decides."
  type        = string
  default     = "INGRESS_TRAFFIC_INTERNAL_ONLY"
}

variable "flow_worker" {
  description = "Make the flow-run worker: a service, its trigger, a bucket and the sweep. docs/deploy.md, Flow runs."
  type        = bool
  default     = false
}

variable "flow_steps" {
  description = "STEPS: modules in the image with steps of your own, for the worker and the sweep."
  type        = list(string)
  default     = []
}

variable "flow_concurrency" {
  description = "FLOW_STEPS_AT_ONCE: steps at once per flow instance; also its requests at once."
  type        = number
  default     = 4

  validation {
    condition     = var.flow_concurrency >= 1 && var.flow_concurrency <= 1000
    error_message = "Must be 1 to 1000."
  }
}

variable "flow_max_instances" {
  description = "Most flow instances. Together they work on flow_concurrency times as many steps."
  type        = number
  default     = 4
}

variable "flow_memory" {
  description = "Memory of a flow instance: for the steps, and for each file until it is in the bucket."
  type        = string
  default     = "1Gi"
}

variable "charts_default_timezone" {
  description = "CHARTS_DEFAULT_TIMEZONE."
  type        = string
  default     = "UTC"
}

variable "artifacts_days" {
  description = "Days until a file that a step made is deleted."
  type        = number
  default     = 90

  validation {
    condition     = var.artifacts_days >= 1
    error_message = "At least 1: 0 would delete files as they are made."
  }
}

variable "verify_push" {
  description = "Millpond checks Pub/Sub's tokens too, after Cloud Run did. Try it in one environment first: docs/deploy.md."
  type        = bool
  default     = false
}

variable "admin_token_secret" {
  description = "Secret Manager secret that holds ADMIN_TOKEN. Made by hand, so that its value is never in Terraform's state."
  type        = string
  default     = "millpond-admin-token"
}

variable "publishers" {
  description = "Members who may publish to the topics, such as serviceAccount:feed@example.iam.gserviceaccount.com."
  type        = set(string)
  default     = []
}

variable "operators" {
  description = "Members who may call the API, of the push service and the flow-run worker, and read the DLQs."
  type        = set(string)
  default     = []
}

variable "alert_channels" {
  description = "Notification channels, projects/…/notificationChannels/…, that are told of warnings, and of what is critical."
  type = object({
    warning  = optional(list(string), [])
    critical = optional(list(string), [])
  })
  default = {}
}
