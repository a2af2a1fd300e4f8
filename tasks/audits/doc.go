// Package audits says what an audit is; each audit is a package below it. An audit
// measures something of a trained model. The project knows an audit by its
// Description and the types that the Description names:
//
//	experiment file   New returns the Fields that it adds to the audit block; their tags
//	                  and comments make the decoder, the JSON Schema and the reference
//	                  page. Limits are its fields of audit.fail_if.
//	plan              Fields.Compile adds the nodes that measure one model. Kinds are
//	                  their tasks.
//	results           Outcome is what is decoded from the last of these nodes. Measures
//	                  are its numbers, each declared once: columns of table, LaTeX, page,
//	                  CSV and Parquet, means over replicates. JSON has the outcome as it
//	                  stands. A Curve of a measure is drawn along the training.
//
// Compile adds nodes by a Builder. An audit that needs more implements one of the other
// interfaces: its Fields Scorer, Worker, Completer, DataChecker, Warner, Planter or Joiner, its
// Outcome Noter, LowerBounder or Figured. Optional fields of the Description do
// the rest.
//
// Package all lists the descriptions. The experiment file, the plan, its estimate, the
// results, the gates and the page go through that list and know no audit by name, so
// that a new audit is a folder here, a line there, and a section of a page in docs/method. See
// docs/extending.md.
//
// An audit of the canaries of the canaries block says something of each of them. Its
// CanaryOutcome stands with the canary, beside those of other audits; ReadParts and Count
// join what several tasks have found. An audit with canaries of its own puts them into
// the population as a Planter, and lists them by Own.
package audits
