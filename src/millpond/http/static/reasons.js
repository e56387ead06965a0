// What a reason word means, in a sentence. The words themselves are those of docs/ordering.md.

const SENTENCES = {
  applied: "It changed the document.",
  duplicate_message_noop: "This message’s effect was there already. Nothing changed.",
  duplicate_event_noop: "The same event had come in another message. It counts once.",
  other_content_not_counted: "Another copy of this event was counted, and says something else. It counts once.",
  stale_event_ignored: "Something greater in the order stood there already. Nothing changed.",
  too_old_ignored: "It was published longer after its own time than this view allows.",
  event_filtered: "The view does not want this event.",
  too_old_to_count: "The receipts that would tell whether it was counted are gone, so it must not be counted again.",
  missing_data: "The message has no data.",
  invalid_base64: "The data is not base64.",
  invalid_json: "The data is not JSON.",
  not_an_object: "The data is JSON, but not an object.",
  too_deep: "The data is nested too deep.",
  integer_out_of_range: "An integer does not fit into 64 bits.",
  unroutable_payload: "Nothing names a topic that a view feeds on, and no view knows the shape.",
  invalid_event: "A view refuses the content: a field is missing, or is not what it must be.",
  id_too_long: "The id of its document would be too long.",
  empty_id: "A part of its document’s id is empty.",
  view_error: "A view raised an error: a bug of the view, not of the message.",
  write_refused: "The store can never hold the document it would make.",
  backpressure_queue_full: "The waiting room was full. It comes again.",
  shutting_down: "The server was ending. It comes again.",
  store_unavailable: "The store did not answer in time. It comes again.",
  store_file_gone: "The store’s file was deleted, moved or replaced: the server must be restarted.",
  contention: "Other writers kept changing the document. It comes again.",
  access_denied: "The store denies access: permissions must be mended.",
  letter_not_stored: "It should be buried, and its letter could not be stored. It comes again.",
  letter_refused: "It should be buried, and the store refuses even the letter.",
  internal_error: "A bug in Millpond; the log has the stack. Nothing was acknowledged.",
  not_found: "It is not there any more.",
};

export function sentenceOf(reason) {
  return Object.hasOwn(SENTENCES, reason) ? SENTENCES[reason] : "";
}
