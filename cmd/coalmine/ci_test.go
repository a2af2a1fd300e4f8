package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"coalmine/internal/must"
	"coalmine/workflows/results"
)

// pipelines are the YAML blocks of docs/ci.md.
func pipelines(t *testing.T) (github githubWorkflow, gitlab gitlabPipeline) {
	t.Helper()
	page := contentOf(t, "../../docs/ci.md")
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch([]byte(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d pipelines in docs/ci.md, want two", len(blocks))
	}
	must.Do(t, errors.Join(yaml.Unmarshal(blocks[0][1], &github), yaml.Unmarshal(blocks[1][1], &gitlab)))
	return github, gitlab
}

type githubWorkflow struct {
	Jobs map[string]struct {
		Steps []struct {
			If, Run, Uses string
			With          map[string]any
		}
	}
}

type gitlabPipeline struct {
	Memorization struct {
		Script      []string
		AfterScript []string `yaml:"after_script"`
		Artifacts   struct {
			When  string
			Paths []string
		}
	}
}

// pipelineSteps are the commands of a pipeline: those that stop it when they fail, those
// that follow in any case, and the files that it keeps.
type pipelineSteps struct{ script, after, artifacts []string }

func (w *githubWorkflow) steps() pipelineSteps {
	var p pipelineSteps
	for _, s := range w.Jobs["gate"].Steps {
		switch path, _ := s.With["path"].(string); {
		case path != "":
			p.artifacts = strings.Fields(path)
		case s.Run != "" && s.If != "":
			p.after = append(p.after, s.Run)
		case s.Run != "":
			p.script = append(p.script, s.Run)
		}
	}
	return p
}

func (w *gitlabPipeline) steps() pipelineSteps {
	m := &w.Memorization
	return pipelineSteps{m.Script, m.AfterScript, m.Artifacts.Paths}
}

// smallGate stands for examples/ci-gate.yaml: no canary's exposure can be within its limit.
const smallGate = `
name: ci-gate
data: {source: examples/text.jsonl, vocabulary: {size: 30}, users: {words: 100}}
canaries: {words: 3, per_configuration: 4, user_probability: 1/2, example_probability: 1}
model: {embedding: 3, units: 4}
training: {rounds: 4, cohort: 4, chunks: 2, client: {learning_rate: 1}}
audit: {random_sampling: {references: 500}, fail_if: {exposure: 0.1}}
`

// The pipelines of the page run as they stand, on a smaller example, and behave as the
// page says: exit status 4 when a gate fails, and artifacts in any case.
func TestPipelinesOfThePageStopAtFailedGate(t *testing.T) {
	t.Parallel()
	github, gitlab := pipelines(t)
	for name, steps := range map[string]pipelineSteps{"GitHub": github.steps(), "GitLab": gitlab.steps()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := checkout(t)
			const alarm = "audit.fail_if.exposure: 0.1 gives a false alarm with a probability of at most 1 (canaries in total: 4"
			if planned, code := inPipeline(t, dir, []string{"./coalmine plan examples/ci-gate.yaml"}); code != exitDone || !strings.Contains(planned, alarm) {
				t.Errorf("the plan ends with %d and lacks %q:\n%s", code, alarm, planned)
			}
			output, code := inPipeline(t, dir, steps.script)
			for _, want := range []string{"gate: c01", "failed: exposure is", alarm} {
				if code != exitGate || !strings.Contains(output, want) {
					t.Fatalf("the pipeline ends with %d and lacks %q:\n%s", code, want, output)
				}
			}
			if shown, code := inPipeline(t, dir, []string{"./coalmine status && ./coalmine status ci-gate"}); code != exitDone || strings.Count(shown, "done, gate failed") != 2 || !strings.Contains(shown, "gate failed: exposure is") {
				t.Errorf("status ends with %d and shows\n%s", code, shown)
			}
			inPipeline(t, dir, steps.after)
			if !slices.Equal(steps.artifacts, []string{"results.json", "report.html"}) {
				t.Fatalf("artifacts %q", steps.artifacts)
			}
			report, err := os.ReadFile(filepath.Join(dir, "report.html"))
			if err != nil || !strings.Contains(string(report), "gate failed: exposure is") {
				t.Errorf("the report (%v) does not name the limit", err)
			}
			checkAlarms(t, filepath.Join(dir, "results.json"))
		})
	}
}

// checkout is a folder as the pipelines find it, but for the small example.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"text.jsonl": spendingText(), "ci-gate.yaml": smallGate} {
		path := filepath.Join(dir, "examples", name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	must.Do(t, os.Symlink(os.Args[0], filepath.Join(dir, "coalmine")))
	return dir
}

// inPipeline runs commands one after another until one fails; the test program stands
// for the binary of go build.
func inPipeline(t *testing.T, dir string, script []string) (output string, code int) {
	t.Helper()
	for _, command := range script {
		if strings.HasPrefix(command, "go build -o coalmine ") {
			continue
		}
		c := exec.CommandContext(t.Context(), "sh", "-e", "-c", command)
		c.Dir, c.Env = dir, append(os.Environ(), asCommand+"=1")
		out, err := c.CombinedOutput()
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
			t.Fatal(err)
		}
		output, code = output+string(out), c.ProcessState.ExitCode()
		if code != exitDone {
			break
		}
	}
	return output, code
}

func checkAlarms(t *testing.T, path string) {
	t.Helper()
	var r results.Results
	decodeJSON(t, contentOf(t, path), &r)
	if len(r.FalseAlarms) != 1 || r.FalseAlarms[0].Trials != 4 || len(r.Cells[0].Breaches) != 1 {
		t.Errorf("false alarms %+v and breaches %q, want one of four canaries", r.FalseAlarms, r.Cells[0].Breaches)
	}
}
