package compile_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
)

// inNoKey are the fields that no result depends on, with the reason: cells that differ in
// them alone share everything. Limits of audit.fail_if are such fields too: they are held
// against finished results.
var inNoKey = map[string]string{
	"name":                         "names the run, for people",
	"label":                        "names the cell, for people",
	"data.source":                  "says where the text stands; its content is in the keys, by the digest",
	"data.tokenizer":               "says where the tokenizer stands; its content is in the keys, by the digest",
	"model.pretrained":             "says where the model stands, likewise",
	"data.background.source":       "says where the background stands, likewise",
	"data.devices.profiles.source": "says where the profiles stand, likewise",

	"audit.cross_modal.embeddings.source": "likewise",

	"prepare.language_model.source":        "likewise",
	"prepare.second_language_model.source": "likewise",

	"training.checkpoints.every": "says which models are kept, not what they are",
	"training.checkpoints.keep":  "says which models are kept, not what they are",

	"training.code":           "says where the code stands, likewise",
	"training.class":          "says which workers run a command",
	"training.pytorch.class":  "says which workers train",
	"training.environment":    "names variables that a command gets",
	"training.limits.time":    "bounds what a command may take",
	"training.limits.answer":  "likewise",
	"training.limits.memory":  "likewise",
	"training.limits.files":   "likewise",
	"training.limits.network": "likewise",

	"audit.enumeration.limit": "bounds what may be asked for, not what is found",
}

// beside are the settings that a field requires and that no file has.
var beside = map[string][]string{
	"data.reading_rules":                {"data.reading_rules=1"},
	"audit.at":                          {"audit={every: null, at: 70%}", "training.steps_per_task=1"},
	"model.untied":                      {"model.projection=12"},
	"training.client.schedule.floor":    {"training.client.schedule={kind: cosine, floor: 0.5}"},
	"training.privacy.mechanism.scales": {"training.privacy.mechanism={kind: blt, buffers: 2, scales: [0.5, 0.25], decays: [0.5, 0.25]}"},
	"training.privacy.mechanism.decays": {"training.privacy.mechanism={kind: blt, buffers: 2, scales: [0.5, 0.25], decays: [0.5, 0.25]}"},
	"training.privacy.delta":            {"audit.one_run=null", "audit.fail_if=null"},
	"training.privacy.key":              {"training.privacy.randomness=secret"},
	"training.engine":                   {"training.pytorch=null"},
	"training.server.momentum":          {"training.server.optimizer=momentum"},
	"training.server.schedule.every":    {"training.server.schedule={kind: step, every: 30, factor: 0.5}"},
	"training.server.schedule.factor":   {"training.server.schedule={kind: step, every: 30, factor: 0.5}"},
}

// texts are values of fields that hold text.
var texts = map[string][]string{
	"name":        {"another"},
	"label":       {"another"},
	"data.source": {"b.jsonl"},
	"data.sha256": {storage.DigestOf([]byte("other text")).String()},

	"data.tokenizer":        {"b.json"},
	"data.tokenizer_sha256": {storage.DigestOf([]byte("other tokenizer")).String()},

	"model.pretrained":        {"other"},
	"model.pretrained_sha256": {storage.DigestOf([]byte("other model")).String()},
	"model.blocks":            {"{parallel: true, rotary: 2}"},

	"data.file_splits":   {"[test]"},
	"data.reading_rules": {"2"},

	"prepare.language_model.source":        {"b.jsonl"},
	"prepare.language_model.sha256":        {storage.DigestOf([]byte("other text")).String()},
	"prepare.second_language_model.source": {"b.jsonl"},
	"prepare.second_language_model.sha256": {storage.DigestOf([]byte("other text")).String()},

	"data.background.source": {"b.jsonl"},
	"data.background.sha256": {storage.DigestOf([]byte("other text")).String()},

	"data.devices.profiles.source": {"b.jsonl"},
	"data.devices.profiles.sha256": {storage.DigestOf([]byte("other text")).String()},

	"audit.profiles.attacks": {"[svm, knn]"},
	"audit.profiles.layers":  {"[cell.input]"},
	"audit.profiles.fit":     {"[{profile: a, users: [u1]}]"},

	"audit.deanonymization.attacks": {"[svm, knn]"},
	"audit.deanonymization.layers":  {"[cell.input]", "[cell]"},

	"canaries.format":         {`"her pin is ###-####"`, `"his dish is # with #"`},
	"canaries.formats":        {`[{format: "my pin is ###-####", alphabet: lower}]`},
	"audit.natural.own":       {"[x+y]"},
	"audit.natural.patterns":  {"[phone, ssn]"},
	"model.adapters.matrices": {"[feed.input]"},
	"canaries.symbols":        {"[rice, beans, eggs, bread]"},
	"canaries.target":         {`"mein pin ist # # #"`},
	"training.record.layers":  {"[embedding]"},

	"audit.cross_modal.embeddings.source":     {"b.jsonl"},
	"audit.cross_modal.embeddings.sha256":     {storage.DigestOf([]byte("other text")).String()},
	"audit.cross_modal.layers":                {"[cell.input]"},
	"audit.fail_if.probabilistic_extractable": {"0"},

	"audit.linking.layers":                    {"[embedding]"},
	"audit.matching.layers":                   {"[embedding]"},
	"audit.attributes.layers":                 {"[embedding]"},
	"audit.attributes.values":                 {"[{value: first, users: [u1]}, {value: second, users: [u2]}]"},
	"training.record.rounds":                  {"[5, 7]"},
	"data.faults":                             {"[{fault: keep-case, users: 1/2}]"},
	"data.sanitize.patterns":                  {"[card, email]"},
	"data.tags":                               {"[history]", "[meta, history]"},
	"training.privacy.mechanism.scales":       {"[0.3, 0.2]"},
	"training.privacy.mechanism.decays":       {"[0.9, 0.2]"},
	"training.privacy.mechanism.coefficients": {"[1, 0.5, 0.3, 0.2]"},

	"training.command":        {"python3 other.py"},
	"training.client_command": {"python3 other.py"},
	"training.code":           {"other"},
	"training.code_sha256":    {storage.DigestOf([]byte("other code")).String()},

	"training.pytorch.code_sha256": {storage.DigestOf([]byte("other code")).String()},
	"training.job":                 {"{epochs: 4}"},
	"training.environment":         {"[NETRC]"},

	"training.privacy.key": {`"0123456789abcdef0123456789abcdef"`},
}

// numbers are values of all other fields, of which the first that fits is taken.
var numbers = []string{"2", "1", "3", "7", "12", "40", "101", "300", "2048", "1000000", "0.001", "0.3", "0.75", "1e-7", "1/7", "30%"}

// A field that reached no key would be ignored: two experiments that differ in it would
// share their results. So each field is changed in every complete experiment that has it,
// and must change the key of the report and, outside of the audit block, that of the
// trained model; or it is listed above.
func TestEveryFieldReachesAKey(t *testing.T) {
	t.Parallel()
	files := completeTexts(t)
	unchanged := map[string]func() (keys, error){} // by file
	for name, text := range files {
		unchanged[name] = sync.OnceValues(func() (keys, error) { return keysOf(name, text, nil) })
	}
	paths := fieldPaths(t)
	delete(paths, "canaries.design")                            // it becomes audit.one_run.design: TestCanariesDesignIsInheritedByAudits
	delete(paths, "data.label")                                 // it changes with model.kind: TestLabelsOfTextsReachAKey
	maps.DeleteFunc(paths, func(path string, _ []string) bool { // package submission tests which keys change with them
		return strings.HasPrefix(path, "training.code_roles.") || path == "training.scorer_sha256"
	})
	for path := range inNoKey {
		if paths[path] == nil {
			t.Errorf("%s is listed as a field that is in no key, and is no field", path)
		}
	}
	for path, values := range paths {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			changed := 0
			for name, text := range files {
				before := unchanged[name]
				if beside[path] != nil {
					before = func() (keys, error) { return keysOf(name, text, beside[path]) }
				}
				if checkField(t, name, text, path, values, before) {
					changed++
				}
			}
			if changed == 0 {
				t.Errorf("no file of testdata/complete, nor that of an audit, has %s and can have another value of it: write the field into one, or a value that fits into this test", path)
			}
		})
	}
}

func TestLabelsOfTextsReachAKey(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("testdata/complete/tags.yaml"))(t)
	seen := map[storage.Key]string{}
	for _, cell := range []string{"data.label=tags model.kind=tagger", "data.label=score model.kind=regressor data.tags=null", "data.label=null model.kind=lstm data.tags=null"} {
		k := must.Get(keysOf("tags.yaml", string(text), strings.Fields(cell)))(t)
		for _, key := range []storage.Key{k.model, k.report} {
			if same, there := seen[key]; there {
				t.Errorf("%s and %s have one key", cell, same)
			}
			seen[key] = cell
		}
	}
}

// The fields of a list of blocks have no path of their own, so that the test above does not
// change them.
func TestEveryFieldOfAFormatReachesAKey(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("testdata/complete/formats.yaml"))(t)
	seen := map[storage.Key]string{}
	for _, form := range []string{
		`{words: 9, alphabet: digits}`, `{words: 8, alphabet: digits}`, `{words: 9, alphabet: letters}`, `{words: 9, symbols: abcdef}`,
		`{words: 9, symbols: abcdeg}`, `{format: "is #########"}`, `{format: "if #########"}`, `{format: "if #########", alphabet: digits}`,
	} {
		k := must.Get(keysOf("formats.yaml", string(text), []string{"canaries.formats=[{words: 10}, " + form + "]"}))(t)
		if same, there := seen[k.model]; there {
			t.Errorf("%s and %s have one key", form, same)
		}
		seen[k.model] = form
	}
}

func TestEveryFieldOfAFaultReachesAKey(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("testdata/complete/faults.yaml"))(t)
	seen := map[storage.Key]string{}
	for _, fault := range []string{
		`null`, `{fault: join-words, examples: 1}`, `{fault: keep-case, examples: 1}`, `{fault: keep-case, examples: 30%}`, `{fault: keep-case, users: 30%}`,
		`{fault: keep-case, users: 30%, examples: 30%}`, `{fault: truncate, users: 30%}`, `{fault: truncate, users: 30%, length: 41}`,
		`[{fault: truncate, users: 30%}, {fault: latin-1, users: 1}]`, `[{fault: latin-1, users: 1}, {fault: truncate, users: 30%}]`,
	} {
		k := must.Get(keysOf("faults.yaml", string(text), []string{"data.faults=" + fault}))(t)
		if same, there := seen[k.model]; there {
			t.Errorf("%s and %s have one key", fault, same)
		}
		seen[k.model] = fault
	}
}

// checkField changes the field in a file, and reports whether it could. unchanged returns the keys of the file with the
// settings beside the field.
func checkField(t *testing.T, file, text, path string, values []string, unchanged func() (keys, error)) bool {
	t.Helper()
	before, err := unchanged()
	if err != nil || !has(t, before.canonical, path) {
		return false
	}
	for _, value := range values {
		after, err := keysOf(file, text, append(slices.Clone(beside[path]), path+"="+value))
		if err != nil || bytes.Equal(after.canonical, before.canonical) {
			continue
		}
		listed := inNoKey[path] != "" || strings.HasPrefix(path, "audit.fail_if.")
		if inReport := after.report != before.report; inReport == listed {
			t.Errorf("%s: %s=%s changes the key of the report: %v, want %v", file, path, value, inReport, !listed)
		}
		elsewhere := strings.HasPrefix(path, "audit.") || strings.HasPrefix(path, "prepare.") // the model may rest on it, or not
		if inModel := after.model != before.model; !elsewhere && inModel == listed {
			t.Errorf("%s: %s=%s changes the key of the model: %v, want %v", file, path, value, inModel, !listed)
		}
		return true
	}
	return false
}

type keys struct {
	canonical     []byte // of the experiment
	model, report storage.Key
}

func keysOf(file, text string, sets []string) (keys, error) {
	spec, err := experiment.Parse(file, []byte(text), experiment.Options{Sets: sets})
	if err != nil {
		return keys{}, err
	}
	if err := spec.Resolve([]experiment.Facts{asked(&spec.Cells[0].Experiment)}); err != nil {
		return keys{}, err
	}
	p, err := compile.Plan(spec)
	if err != nil {
		return keys{}, err
	}
	return keys{spec.Cells[0].Experiment.Canonical(), p.Cells[0].Final.Key, p.Cells[0].Report.Key}, nil
}

// has reports whether a resolved experiment has the field.
func has(t *testing.T, canonical []byte, path string) bool {
	t.Helper()
	rest := json.RawMessage(canonical)
	for name := range strings.SplitSeq(path, ".") {
		var block map[string]json.RawMessage
		must.Do(t, json.Unmarshal(rest, &block))
		if rest = block[name]; rest == nil {
			return false
		}
	}
	return true
}

// asked are facts of the data and the key that an experiment asks for by their digests.
func asked(e *experiment.Experiment) experiment.Facts {
	facts := fitting()
	if digest, err := storage.ParseDigest(e.Data.SHA256); err == nil {
		facts.Files = []storage.Digest{digest}
	}
	for _, source := range e.Sources() {
		prepared := fitting()
		if digest, err := storage.ParseDigest(source.Of.SHA256); err == nil {
			prepared.Files = []storage.Digest{digest}
		}
		facts.Prepared = append(facts.Prepared, prepared)
	}
	for i, second := range e.Data.SecondSources() {
		if second.Of == nil {
			continue
		}
		if digest, err := storage.ParseDigest(second.Of.SHA256); err == nil {
			facts.Second[i] = []storage.Digest{digest}
		}
	}
	for _, x := range e.AuditSources() {
		if digest, err := storage.ParseDigest(*x.SHA256); err == nil {
			facts.OfAudits = map[string][]storage.Digest{x.Path: {digest}}
		}
	}
	facts.Code = storage.DigestOf([]byte("code"))
	_, code := e.Training.CodeOf()
	if digest, err := storage.ParseDigest(*code); err == nil {
		facts.Code = digest
	}
	if p := e.Training.Privacy; p.Secret() {
		facts.Key = cmp.Or(p.Key, strings.Repeat("5a", 16))
	}
	return facts
}

// completeTexts are the experiments that together have every field, by their paths.
func completeTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, path := range globbed(t, completeFiles...) {
		text := must.Get(os.ReadFile(path))(t)
		texts[path] = string(text)
	}
	return texts
}

// fieldPaths are all fields of the experiment file that are no blocks, as its schema has
// them, each with values that it may have.
func fieldPaths(t *testing.T) map[string][]string {
	t.Helper()
	text := must.Get(os.ReadFile("../../experiment/experiment.schema.json"))(t)
	var schema struct {
		Defs map[string]struct {
			Type string   `json:"type"`
			Enum []string `json:"enum"`
		} `json:"$defs"`
	}
	must.Do(t, json.Unmarshal(text, &schema))
	paths := map[string][]string{}
	for path, d := range schema.Defs {
		switch {
		case d.Type == "object" && texts[path] == nil || strings.HasPrefix(path, "part of "):
		case d.Enum != nil:
			paths[path] = d.Enum
		case d.Type == "boolean":
			paths[path] = []string{"true", "false"}
		case texts[path] != nil:
			paths[path] = texts[path]
		default:
			paths[path] = numbers
		}
	}
	return paths
}
