// What a reason word means, in a sentence. The words themselves are those of docs/ordering.md.

const SENTENCES = {
  applied: "It changed the document.",
  duplicate_message_noop: "The document already holds this message’s effect. Nothing changed.",
  duplicate_event_noop: "The same event arrived in another message. It counts once.",
  other_content_not_counted: "Another copy of this event, with other content, was counted. It counts once.",
  stale_event_ignored: "The document already holds something greater in the order. Nothing changed.",
  too_old_ignored: "It was published longer after its own time than this view allows.",
  event_filtered: "The view filters this event out.",
  too_old_to_count: "Receipts of its age have expired: whether it was counted is unknown, so it is not counted.",
  missing_data: "The message has no data.",
  invalid_base64: "The data is not base64.",
  invalid_json: "The data is not JSON.",
  not_an_object: "The data is JSON, but not an object.",
  too_deep: "The data is nested too deep.",
  integer_out_of_range: "An integer does not fit into 64 bits.",
  unroutable_payload: "The message names no topic that a view feeds on, and no view recognises its shape.",
  invalid_event: "A view refuses the content: a field is missing, or is not what it must be.",
  id_too_long: "The id of its document would be too long.",
  empty_id: "A part of its document’s id is empty.",
  view_error: "A view raised an error: a bug of the view, not of the message.",
  unowned_document: "Another program wrote the document, and the view does not adopt it.",
  write_refused: "The store refuses the document it would make.",
  backpressure_queue_full: "The queue was full. The sender delivers it again.",
  shutting_down: "The server was shutting down. The sender delivers it again.",
  store_unavailable: "The store did not answer in time. The sender delivers it again.",
  store_file_gone: "The store’s file was deleted, moved or replaced: the server must be restarted.",
  contention: "Other writers kept changing the document. The sender delivers it again.",
  access_denied: "The store denies access: correct its permissions.",
  letter_not_stored: "It should be buried, but its letter could not be stored. The sender delivers it again.",
  letter_refused: "It should be buried, but the store refuses the letter too.",
  internal_error: "A bug in Millpond; the log has the stack. Nothing was acknowledged.",
  not_found: "It no longer exists.",
};

export function sentenceOf(reason) {
  return Object.hasOwn(SENTENCES, reason) ? SENTENCES[reason] : "";
}
