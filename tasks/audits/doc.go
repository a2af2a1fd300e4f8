// Package audits says what an audit is; each audit is a package below it. An audit
// measures something of a trained model. All that the project knows of it is its
// Description, and the types that this names:
//
//	experiment file   New returns the Fields that it adds to the audit block; their tags
//	                  and comments make the decoder, the JSON Schema and the reference
//	                  page. Limits are its fields of audit.fail_if.
//	plan              Fields.Compile adds the nodes that measure one model. Kinds are
//	                  their tasks. Fields.States is what they cost.
//	results           Outcome is what is decoded from the last of these nodes. Measures
//	                  are its numbers, each declared once: columns of table, LaTeX, page,
//	                  CSV and Parquet, means over replicates. JSON has the outcome as it
//	                  stands. Curves are drawn along the training.
//
// More is there for audits that need it; each is an interface that Fields or Outcome
// may implement: Completer, DataChecker, Warner, Planter, Joiner, Noter, Figured, Panelled,
// Lister, Comparer.
//
// Package all lists the descriptions. The experiment file, the plan, its estimate, the
// results, the gates and the page go through that list and know no audit by name, so
// that a new audit is a folder here, a line there, and a section of docs/method.md. See
// docs/extending.md.
//
// An audit of the canaries of the canaries block says something of each of them. Its
// CanaryOutcome stands with the canary, beside those of other audits; ReadParts and Count
// join what several tasks have found. An audit with canaries of its own puts them into
// the population as a Planter, and lists them as a Lister.
package audits
