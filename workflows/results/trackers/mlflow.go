package trackers

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"strconv"

	"coalmine/workflows/results"
)

// A file store of MLflow (mlflow/store/tracking/file_store.py) has a folder for each
// experiment, named by a number, and in it a folder for each run, named by 32 hex digits:
//
//	<experiment>/meta.yaml
//	<experiment>/tags/<name>
//	<experiment>/<run>/meta.yaml
//	<experiment>/<run>/params/<name>    the value
//	<experiment>/<run>/metrics/<name>   lines of "<milliseconds> <value> <step>"
//	<experiment>/<run>/tags/<name>      the value
//
// Names may contain slashes. A run of Coalmine is an MLflow experiment and a cell is an MLflow run, so that
// a store may hold several runs of one experiment file.

// The status of a run in meta.yaml (mlflow.entities.RunStatus).
const (
	mlflowRunning  = 1
	mlflowFinished = 3
	mlflowFailed   = 4
	mlflowKilled   = 5
)

var mlflowStatus = map[string]int{
	results.Pending: mlflowRunning, results.Done: mlflowFinished, results.Failed: mlflowFailed, results.Cancelled: mlflowKilled,
}

// mlflowLocal is the source type of a run that was started from no project or notebook
// (mlflow.entities.SourceType.LOCAL).
const mlflowLocal = 4

// experimentID returns an id of 18 digits, as MLflow's ids have, from the digest of the run's id.
func experimentID(run *Run) string {
	digest := sha256.Sum256([]byte(run.ID))
	return strconv.FormatUint(1e17+binary.BigEndian.Uint64(digest[:])%9e17, 10)
}

func mlflowExperiment(run *Run) []file {
	var meta yaml
	meta.set("artifact_location", artifacts(run))
	meta.set("creation_time", run.milliseconds())
	meta.set("experiment_id", experimentID(run))
	meta.set("last_update_time", run.milliseconds())
	meta.set("lifecycle_stage", "active")
	meta.set("name", run.ID)
	return []file{{"meta.yaml", meta.Bytes()}, {"tags/coalmine.experiment", []byte(run.Experiment)}}
}

func mlflowRun(run *Run, c *Cell) []file {
	id := hex.EncodeToString(c.Digest[:16])
	name := fmt.Sprintf("%s (%s)", c.Name, c.Label)
	files := []file{{path.Join(id, "meta.yaml"), mlflowMeta(run, c, id, name)}, {path.Join(id, "tags", "mlflow.runName"), []byte(name)}}
	for _, text := range c.Texts {
		files = append(files, file{path.Join(id, "tags", safe("coalmine."+text.Column)), []byte(text.Text)})
	}
	for _, p := range c.Params {
		files = append(files, file{path.Join(id, "params", safe(p.Path)), []byte(p.Text())})
	}
	for _, s := range c.Series {
		files = append(files, file{path.Join(id, "metrics", s.Name), mlflowMetric(s, run.milliseconds())})
	}
	return files
}

// mlflowMeta returns the fields that MLflow writes. An unfinished run has no end.
func mlflowMeta(run *Run, c *Cell, id, name string) []byte {
	var meta yaml
	meta.set("artifact_uri", artifacts(run)+"/"+id+"/artifacts")
	meta.set("deleted_time", nil)
	if c.Status == results.Pending {
		meta.set("end_time", nil)
	} else {
		meta.set("end_time", run.milliseconds())
	}
	meta.set("entry_point_name", "")
	meta.set("experiment_id", experimentID(run))
	meta.set("lifecycle_stage", "active")
	meta.set("run_id", id)
	meta.set("run_name", name)
	meta.set("run_uuid", id)
	meta.set("source_name", "")
	meta.set("source_type", mlflowLocal)
	meta.set("source_version", "")
	meta.set("start_time", run.milliseconds())
	meta.set("status", mlflowStatus[c.Status])
	meta.set("tags", []string{})
	meta.set("user_id", "")
	return meta.Bytes()
}

// artifacts returns the place where MLflow's server keeps files of an experiment. There are no such files.
// The place does not depend on the store's folder.
func artifacts(run *Run) string { return "mlflow-artifacts:/" + experimentID(run) }

// milliseconds returns the time of the submission in milliseconds since 1970, or 0 if unknown.
func (r *Run) milliseconds() int64 {
	if r.Submitted.IsZero() {
		return 0
	}
	return r.Submitted.UnixMilli()
}

func mlflowMetric(s Series, milliseconds int64) []byte {
	var lines bytes.Buffer
	for _, p := range s.Points {
		fmt.Fprintf(&lines, "%d %s %d\n", milliseconds, strconv.FormatFloat(p.Value, 'g', -1, 64), p.Step)
	}
	return lines.Bytes()
}

// yaml is a mapping with values in JSON, which is valid YAML.
type yaml struct{ bytes.Buffer }

func (y *yaml) set(name string, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // texts and numbers have JSON
	}
	fmt.Fprintf(y, "%s: %s\n", name, data)
}
