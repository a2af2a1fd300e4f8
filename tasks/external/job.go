package external

import (
	"encoding/json"

	"coalmine/internal/contracts"
	"coalmine/tasks/datasets/images"
)

// Files and folders of a command's input and output.
const (
	inFolder         = "in"
	checkpointFolder = "checkpoint"
	outFolder        = "out"

	jobFile        = inFolder + "/job.json"
	trainFile      = inFolder + "/train.jsonl"
	validationFile = inFolder + "/validation.jsonl"
	vocabularyFile = inFolder + "/vocabulary.json"
	metricsFile    = outFolder + "/metrics.jsonl"
	resultFile     = outFolder + "/result.json"
)

// Limits on the files read from a command, in bytes.
const (
	maxFile   = 4 << 30
	maxResult = 1 << 20
	// maxText bounds each text of the result, in bytes.
	maxText = 8 << 10
)

// Job is the description of the task for a command: in/job.json.
type Job struct {
	contracts.Identity
	// Seed determines all random numbers.
	Seed uint64 `json:"seed"`
	// Rounds is the number of rounds that the metrics count up to.
	Rounds int `json:"rounds"`
	// Users and Examples count the training file.
	Users    int `json:"users"`
	Examples int `json:"examples"`
	// Image is the shape of the examples, if they are images.
	Image *images.Shape `json:"image,omitempty"`
	// Files are paths below the directory.
	Files Files `json:"files"`
	// OneShot asks for canary clients; nil does not.
	OneShot *OneShot `json:"one_shot,omitempty"`
	// Replay asks for replayed steps; nil does not.
	Replay *Replay `json:"replay,omitempty"`
	// Job is the experiment's own block.
	Job json.RawMessage `json:"job,omitempty"`
}

// Files lists a command's input and output files.
type Files struct {
	// Train is the file of the training data; TrainShards are several files instead.
	Train       string   `json:"train,omitempty"`
	TrainShards []string `json:"train_shards,omitempty"`
	Validation  string   `json:"validation,omitempty"`
	// Images maps the files above to the files of their images.
	Images map[string]string `json:"images,omitempty"`
	// Vocabulary is the vocabulary of texts.
	Vocabulary string `json:"vocabulary,omitempty"`
	Checkpoint string `json:"checkpoint"`
	Metrics    string `json:"metrics"`
	Result     string `json:"result"`
	// OneShot is set if canary clients are requested.
	OneShot string `json:"one_shot,omitempty"`
	// Replay and ReplayTensors are set if replays are requested.
	Replay        string `json:"replay,omitempty"`
	ReplayTensors string `json:"replay_tensors,omitempty"`
}

func (x *training) newJob() *Job {
	p := x.params
	job := &Job{
		Identity: contract.Identity(), Seed: p.Seed, Rounds: p.Rounds, OneShot: p.OneShot, Replay: p.Replay, Job: p.Job,
		Files: Files{Vocabulary: vocabularyFile, Checkpoint: checkpointFolder, Metrics: metricsFile, Result: resultFile},
	}
	if p.OneShot != nil {
		job.Files.OneShot = oneShotFile
	}
	if p.Replay != nil {
		job.Files.Replay, job.Files.ReplayTensors = replayFile, replayTensors
	}
	lines := trainFiles(p.Shards)
	if job.Files.Train = lines[0]; len(lines) > 1 {
		job.Files.Train, job.Files.TrainShards = "", lines
	}
	if p.Validation {
		job.Files.Validation = validationFile
		lines = append(lines, validationFile)
	}
	if p.ofImages() {
		job.Image, job.Files.Vocabulary, job.Files.Images = &p.Image, "", map[string]string{}
		for _, file := range lines {
			job.Files.Images[file] = imagesFile(file)
		}
	}
	return job
}

// Result is a command's description of its model: out/result.json.
type Result struct {
	// Model is the optional file of the model, below out.
	Model string `json:"model,omitempty"`
	// Score is a command line that scores texts by the trained model, Initial one for the untrained
	// model: both by the contract "score", in a directory with the code and out.
	Score   string `json:"score,omitempty"`
	Initial string `json:"initial_score,omitempty"`
	// Step is a command line that runs single steps of the training, in a directory with all files
	// of the training; empty for none.
	Step string `json:"step,omitempty"`
}
