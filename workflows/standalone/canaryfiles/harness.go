package canaryfiles

import (
	"fmt"
	"io"
)

// HarnessTask is the name of the task that Harness describes.
const HarnessTask = "coalmine_canaries"

// Harness writes a task of lm-evaluation-harness that scores the lines of a file. The lines must be in the
// same directory, without the header, in a file named data.
func Harness(w io.Writer, data string) error {
	_, err := fmt.Fprintf(w, `# Scores canaries of Coalmine; coalmine audit --scores reads the samples.
#   cd the directory of this file
#   lm_eval --model hf --model_args pretrained=NAME --tasks %[1]s --include_path . --log_samples --output_path out
task: %[1]s
dataset_path: json
dataset_kwargs:
  data_files:
    test: %[2]s
test_split: test
output_type: loglikelihood
doc_to_text: "{{context}}"
doc_to_target: "{{continuation}}"
target_delimiter: ""  # the continuation begins with its space
num_fewshot: 0
metric_list:
  - metric: acc  # the share of the lines that greedy decoding gives
    aggregation: mean
    higher_is_better: false
metadata:
  version: 1
`, HarnessTask, data)
	return err
}

// WriteLines writes the lines without the header, in the form that the task of Harness reads.
func (f *File) WriteLines(w io.Writer) error {
	for i := range f.Lines {
		if err := writeLine(w, &f.Lines[i]); err != nil {
			return err
		}
	}
	return nil
}
