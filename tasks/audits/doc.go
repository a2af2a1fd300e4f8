// Package audits defines an audit: a measurement of a trained model. Each audit is a package below
// it. Other packages use it by its Description and the types there:
//
//	experiment file   New returns the Fields that it adds to the audit block. Their tags and
//	                  comments make the decoder, the JSON Schema and the reference page.
//	                  Limits are its fields of audit.fail_if.
//	plan              Fields.Compile adds the nodes that measure one model; Kinds are their
//	                  tasks.
//	results           Outcome is decoded from the last of these nodes. Measures are its
//	                  numbers, each declared once: columns of table, LaTeX, page, CSV and
//	                  Parquet, means over replicates, and a Curve along the training. JSON
//	                  has the unchanged outcome.
//
// Compile adds nodes by a Builder. Fields may also implement Scorer, Worker, Completer,
// DataChecker, Warner, Planter or Sender, and the Outcome Noter, LowerBounder or Figured.
// Other fields of the Description are optional.
//
// Package all lists the descriptions. The experiment file, the plan, its estimate, the results,
// the gates and the page use only that list: a new audit is a folder here, a line there, and a
// section of a page in docs/method. See docs/extending.md.
//
// An audit of the canaries block has a CanaryOutcome for each canary, shown with those of other
// audits; ReadParts and Count join the results of several tasks. An audit with its own canaries
// plants them as a Planter, and lists them by Own.
package audits
