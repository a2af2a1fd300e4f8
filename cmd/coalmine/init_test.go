package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/workflows/standalone/starter"
)

// post is a text of somebody.
type post struct{ user, text string }

// posts are texts of some users, with quotes, commas and line ends in them. Words follow from the words before,
// so that a model has something to learn.
func posts(seed uint64, texts, users, longest int) []post {
	r := rand.New(rand.NewPCG(seed, 1))
	list := make([]post, texts)
	for i := range list {
		at, words := r.IntN(150), make([]string, 3+r.IntN(longest))
		for j := range words {
			words[j] = fmt.Sprintf("w%d", at)
			at = (7*at + r.IntN(3)) % 150
		}
		list[i] = post{fmt.Sprintf("u%d", r.IntN(users)), `He said, "` + strings.Join(words, " ") + "\"\nthen"}
	}
	return list
}

// table writes posts as a table.
func table(comma rune, names []string, row func(i int, p post) []string) func(*testing.T, string, []post) {
	return func(t *testing.T, path string, list []post) {
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		w.Comma = comma
		rows := [][]string{names}
		for i, p := range list {
			rows = append(rows, row(i, p))
		}
		must.Do(t, w.WriteAll(rows))
		writeFile(t, path, b.String())
	}
}

// lines writes posts as JSON lines of objects.
func lines(object func(p post) any) func(*testing.T, string, []post) {
	return func(t *testing.T, path string, list []post) {
		var b bytes.Buffer
		for _, p := range list {
			must.Do(t, json.NewEncoder(&b).Encode(object(p)))
		}
		writeFile(t, path, b.String())
	}
}

func textFiles(t *testing.T, path string, list []post) {
	for i, p := range list {
		file := filepath.Join(path, p.user, fmt.Sprintf("%d.txt", i))
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o700))
		writeFile(t, file, strings.ReplaceAll(p.text, "\n", " "))
	}
}

func leaf(t *testing.T, path string, list []post) {
	type user struct {
		X []string `json:"x"`
		Y []string `json:"y"`
	}
	data := map[string]*user{}
	for _, p := range list {
		if data[p.user] == nil {
			data[p.user] = &user{}
		}
		data[p.user].X, data[p.user].Y = append(data[p.user].X, p.text), append(data[p.user].Y, "s")
	}
	text := must.Get(json.Marshal(map[string]any{"users": []string{}, "user_data": data}))(t)
	writeFile(t, path, strings.Replace(string(text), `"user_data"`, `"num_samples":[],"user_data"`, 1))
}

// dataOfInit are sources in the forms that people have.
var dataOfInit = []struct {
	name, columns string // columns of the file, empty for those of the form
	write         func(*testing.T, string, []post)
	flags         []string
}{
	{name: "posts.csv", columns: "{user: Author_ID, text: body}", write: table(',', []string{"id", "Author_ID", "body", "stars"}, func(i int, p post) []string { return []string{fmt.Sprint(i), p.user, p.text, "3"} })},
	{name: "unknown names.tsv", columns: `{user: who, text: "was gesagt: wurde"}`, flags: []string{"--column", "user=who"}, write: table('\t', []string{"who", "was gesagt: wurde", "n"}, func(i int, p post) []string { return []string{p.user, p.text, fmt.Sprint(i)} })},
	{name: "nobody.csv", columns: "{user: text}", write: table(',', []string{"text", "label"}, func(_ int, p post) []string { return []string{p.text, "1"} })},
	{name: "rows.csv", columns: "{user: id}", write: table(',', []string{"id", "text"}, func(i int, p post) []string { return []string{fmt.Sprint(i), p.text} })},
	{name: "faults.csv", write: table(',', []string{"user", "text"}, func(i int, p post) []string {
		if i%9 == 0 {
			return []string{p.user, ""}
		}
		return []string{p.user, p.text}
	})},
	{name: "usual.jsonl", write: lines(func(p post) any { return map[string]any{"user": p.user, "text": p.text, "likes": 3} })},
	{name: "other.jsonl", columns: "{user: author, text: message}", write: lines(func(p post) any {
		return map[string]any{"author": p.user, "message": p.text, "tags": []string{"a"}, "at": map[string]int{"x": 1}}
	})},
	{name: "folder", write: textFiles},
	{name: "leaf.json", write: leaf},
}

// For any form, size and seed of the data, the file plans, and its canaries replace less
// than 1% of the training data.
func TestInitProposalsFitTheData(t *testing.T) {
	t.Parallel()
	for i, d := range dataOfInit {
		for _, size := range []int{140, 1500} {
			t.Run(fmt.Sprintf("%s of %d texts", d.name, size), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				data, file, seed := filepath.Join(dir, d.name), filepath.Join(dir, "first.yaml"), uint64(1000*i+size)
				d.write(t, data, posts(seed, size, 3+int(seed)%200, 5+int(seed)%60))
				algorithm := []string{"sgd", "fedavg"}[i%2]
				prints(t, append([]string{"init", file, "--data", data, "--algorithm", algorithm, "--seed", fmt.Sprint(seed), "--time", "5s", fmt.Sprintf("--private=%v", i%3 == 0)}, d.flags...)...)
				text := contentOf(t, file)
				if !strings.HasPrefix(text, starter.EditorLine) || !strings.Contains(contentOf(t, filepath.Join(dir, starter.SchemaFile)), `"$schema"`) {
					t.Errorf("editors do not find the schema: %.100s", text)
				}
				if d.columns != "" && !strings.Contains(text, "  columns: "+d.columns) || d.columns == "" && strings.Contains(text, "columns:") {
					t.Errorf("want the columns %q in\n%s", d.columns, text)
				}
				if skips := strings.Contains(text, "on_error: skip"); skips != (d.name == "faults.csv") {
					t.Errorf("on_error: skip is in the file: %v", skips)
				}
				var plan struct{ Tasks int }
				decodeJSON(t, prints(t, "plan", file, "--json", "--home", filepath.Join(dir, "home")), &plan)
				checkInserted(t, file, dir)
			})
		}
	}
}

// checkInserted counts the canaries that the tasks insert.
func checkInserted(t *testing.T, file, dir string) {
	t.Helper()
	var found struct {
		Preparations []struct {
			Population struct{ Examples, Words int }
			Insertions struct {
				Replaced int `json:"replaced_examples"`
				Examples int
			}
		}
	}
	decodeJSON(t, prints(t, "data", "inspect", file, "--json", "--home", filepath.Join(dir, "home")), &found)
	for _, p := range found.Preparations {
		in, all := p.Insertions, p.Population
		if tokens := float64(in.Replaced*6) / float64(all.Words+all.Examples); in.Replaced == 0 || float64(in.Replaced) > 0.01*float64(in.Examples) || tokens > 0.01 {
			t.Errorf("%d of %d examples are canaries, %.2g%% of the tokens", in.Replaced, in.Examples, 100*tokens)
		}
	}
	if len(found.Preparations) == 0 {
		t.Error("no data were prepared")
	}
}

// Three commands lead from a table to its results: init, run and results.
func TestInitFileRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, file, home := filepath.Join(dir, "posts.csv"), filepath.Join(dir, "first.yaml"), filepath.Join(dir, "home")
	dataOfInit[0].write(t, data, posts(1, 600, 40, 12))
	told := prints(t, "init", file, "--data", data, "--time", "1s")
	if next := fmt.Sprintf("  coalmine plan %[1]s    # tasks and time; runs nothing\n  coalmine run %[1]s\n", file); !strings.HasSuffix(told, next) {
		t.Errorf("the end of\n%s is not\n%s", told, next)
	}
	prints(t, "run", file, "--home", home)
	var results struct {
		Cells []struct{ State string }
	}
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &results)
	if len(results.Cells) != 1 || results.Cells[0].State != "done" {
		t.Errorf("%+v", results)
	}
}

func TestInitRejectsBadDataAndWritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"empty.csv": "", "empty.jsonl": "", "header.csv": "user,text\n", "numbers.csv": "a,b\n1,2\n3,4\n", "images.jsonl": `{"user":"a","label":1,"pixels":[0,1]}` + "\n",
		"tiny.csv": "user,text\na,hello there\nb,good bye\n", "one.txt": "hello there\n", "wide.csv": "\xff\xfeu\x00s\x00e\x00r\x00", "broken.jsonl": "{\n",
		"few.csv": "user,text\n" + strings.Repeat("a,b c d e f g h i j k l m n o p q r s t\n", 60), "array.json": "[1, 2]", "taken.yaml": "mine",
		"two.csv": "author,msg\nann,hello\nbob,good day\n", "latin.csv": "author;msg\nann;h\xe9llo my dear world\n",
		"one.csv": "user,text\n" + strings.Repeat("a,b c d e f g h i j k l m n o p q r s t\n", 2000),
	} {
		writeFile(t, at(name), text)
	}
	file := at("first.yaml")
	for words, args := range map[string][]string{
		"no such file or directory":                   {"--data", at("absent.csv")},
		"empty.csv: the file is empty":                {"--data", at("empty.csv")},
		"empty.jsonl: the file is empty":              {"--data", at("empty.jsonl")},
		"header.csv: holds no records; expected rows": {"--data", at("header.csv")},
		`two.csv: no column has more than 2 words per text on average: "author" has 1 in 2 texts, "msg" has 1.5 in 2 texts; name the column`: {"--data", at("two.csv")},
		`"msg" is not valid UTF-8 from its byte 2; convert the file to UTF-8; if it is in Windows-1252 or Latin-1, by: iconv`:                {"--data", at("latin.csv")},
		`there is no column "tekst"; expected one of`: {"--data", at("numbers.csv"), "--column", "text=tekst"},
		"images.jsonl: no column has more than":       {"--data", at("images.jsonl")},
		"different words; expected at least 11":       {"--data", at("tiny.csv")},
		"is one text file; expected a directory":      {"--data", at("one.txt")},
		"convert it to UTF-8":                         {"--data", at("wide.csv")},
		"the first line is not JSON":                  {"--data", at("broken.jsonl")},
		"one canary would be":                         {"--data", at("few.csv")},
		"all texts belong to one user":                {"--data", at("one.csv"), "--algorithm", "fedavg"},
		"write its elements one a line":               {"--data", at("array.json")},
		`--algorithm "adam": expected sgd or fedavg`:  {"--algorithm", "adam"},
		"--time -1s: expected a time above 0":         {"--time", "-1s"},
	} {
		refuses(t, words, append([]string{"init", file}, args...)...)
	}
	refuses(t, "already exists; --force replaces it", "init", at("taken.yaml"))
	refuses(t, "expected a name that ends in .yaml", "init", at("tiny.csv"))
	if contentOf(t, at("taken.yaml")) != "mine" {
		t.Error("a file is replaced without --force")
	}
	for _, name := range []string{"first.yaml", starter.SchemaFile} {
		if _, err := os.Stat(at(name)); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}

func TestInitDryRunWritesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, file := filepath.Join(dir, "posts.csv"), filepath.Join(dir, "first.yaml")
	dataOfInit[0].write(t, data, posts(1, 300, 9, 9))
	printed := prints(t, "init", file, "--data", data, "--dry-run", "--name", "mine", "--seed", "7")
	if !strings.Contains(printed, "\nname: mine\nseed: 7 ") {
		t.Errorf("%s", printed)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("--dry-run writes a file")
	}
}

// A text loses the words after the longest sequence.
func TestInitTellsThatLongTextsAreCut(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "posts.csv")
	for longest, want := range map[int]string{9: "none is longer", 400: " is not used"} {
		dataOfInit[0].write(t, data, posts(1, 300, 9, longest))
		printed := prints(t, "init", "--data", data, "--dry-run")
		if !strings.Contains(printed, want) || strings.Contains(printed, "words after the cut") != (longest == 400) {
			t.Errorf("of texts of up to %d words: %s", longest, printed)
		}
	}
}

func TestInitAsksForMissingFlags(t *testing.T) {
	t.Parallel()
	var asked strings.Builder
	f := initFlags{answers: &answers{bufio.NewScanner(strings.NewReader("posts.csv\n\nmaybe\nyes\n90s\nwords\nnone\n")), &asked}}
	f.add(pflag.NewFlagSet("init", pflag.ContinueOnError))
	f.ask()
	if f.data != "posts.csv" || f.algorithm != "sgd" || !f.private || f.time != 90*time.Second || !strings.Contains(asked.String(), `--private "maybe": expected true or false`) {
		t.Errorf("%+v after\n%s", f, &asked)
	}
	o := f.askColumns(&starter.Data{Choices: []string{"a", "words"}, Alone: true})
	if o.Columns.Text != "words" || o.Columns.User != "words" {
		t.Errorf("%+v", o)
	}
}

// A copy of an example has the example's keys in any directory, and from any working directory.
func TestInitCopyPlansLikeItsExample(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	home := filepath.Join(folder, "home")
	for like, from := range map[string]string{"external/gru-federated/native": "/", "external/gru-central/experiment": "copies"} {
		file := "copies/" + path.Base(like) + ".yaml"
		if output, err := inEmptyFolder(t, folder, "init", file, "--like", like); err != nil || strings.Contains(output, "first:") {
			t.Errorf("%s: %v\n%s", like, err, output)
		}
		ours, wrong := inEmptyFolder(t, filepath.Join(folder, from), "plan", filepath.Join(folder, file), "--json", "--programs=false", "--home", home)
		theirs, err := inEmptyFolder(t, folder, "plan", "examples/"+like+".yaml", "--json", "--programs=false", "--home", home)
		if a, b := plannedCells(ours), plannedCells(theirs); wrong != nil || err != nil || a != b || a == "" {
			t.Errorf("%s from %s: %v, %v: another plan than that of %s\n%s\n%s", file, from, wrong, err, like, a, b)
		}
	}
}

// plannedCells are the cells of a plan, without the machine's times.
func plannedCells(plan string) string {
	_, cells, _ := strings.Cut(plan, `"cells"`)
	cells, _, _ = strings.Cut(cells, `"this_machine"`)
	return cells
}

// Another seed draws other users for the test part: a word of one user alone is not in every training part.
func TestInitVocabularyHoldsForEverySeed(t *testing.T) {
	t.Parallel()
	for rare, atMost := range map[int]int{0: 51, 20: 51 + 18} {
		var b strings.Builder
		b.WriteString("user,text\n")
		for i := range 2000 {
			fmt.Fprintf(&b, "u%d,w%d w%d w%d w%d\n", i%40, i%51, 7*i%51, 11*i%51, 13*i%51)
		}
		for user := range rare {
			fmt.Fprintf(&b, "v%d,w1 rare%d w2\n", user, user)
		}
		file := filepath.Join(t.TempDir(), "posts.csv")
		writeFile(t, file, b.String())
		text := prints(t, "init", "-", "--data", file)
		size := regexp.MustCompile(`vocabulary: {size: (\d+)}`).FindStringSubmatch(text)
		if size == nil {
			t.Fatalf("no vocabulary:\n%s", text)
		}
		if words := must.Get(strconv.Atoi(size[1]))(t); words < 51 || words > atMost {
			t.Errorf("%d users with a word of their own: a vocabulary of %d, want 51 to %d", rare, words, atMost)
		}
	}
}

func TestInitSuggestsSimilarExamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "first.yaml")
	told := prints(t, "init", file, "--like", "thakkar-2020/table-1", "--name", "mine", "--seed", "9")
	if text := contentOf(t, file); !strings.HasPrefix(text, starter.EditorLine) || !strings.Contains(text, "\nname: mine\n") || !strings.Contains(text, "\nseed: 9\n") {
		t.Errorf("%s", text)
	}
	if !strings.Contains(told, "first: stackoverflow.sqlite: no such file") || !strings.Contains(told, "--like thakkar-2020/table-1-small needs none") {
		t.Errorf("%s", told)
	}
	for like, words := range map[string]string{
		"quikstart": "did you mean quickstart?", "thakkar-2020/tabel-1": "did you mean thakkar-2020/table-1?", "thakkar-2020": "expected one of\n  thakkar-2020/",
	} {
		fails(t, words, "init", filepath.Join(dir, "second.yaml"), "--like", like)
	}
	refuses(t, "--private and --like: expected one of them", "init", filepath.Join(dir, "second.yaml"), "--like", "quickstart", "--private")
}

// The programs are short, and a module that is there stays.
func TestInitWritesProgramsAroundAModule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, file, folder := filepath.Join(dir, "posts.csv"), filepath.Join(dir, "first.yaml"), filepath.Join(dir, "trainer")
	dataOfInit[0].write(t, data, posts(1, 4*unmeasuredTexts, 30, 12))
	vocabulary := regexp.MustCompile(`\n  vocabulary: .*`)
	ofAll := vocabulary.FindString(prints(t, "init", "-", "--data", data))
	must.Do(t, os.Mkdir(folder, 0o700))
	writeFile(t, filepath.Join(folder, "model.py"), "mine")
	refuses(t, "expected torch", "init", file, "--data", data, "--trainer", "jax")
	refuses(t, "--private and --trainer", "init", file, "--data", data, "--trainer", "torch", "--private")
	for _, algorithm := range []string{"sgd", "fedavg"} {
		prints(t, "init", file, "--data", data, "--trainer", "torch", "--algorithm", algorithm, "--force")
		prints(t, "plan", file, "--programs=false", "--home", filepath.Join(dir, "home"))
		checkInserted(t, file, dir)
		if text := contentOf(t, file); !strings.Contains(text, "\n  code: trainer ") {
			t.Errorf("the program is elsewhere:\n%s", text)
		} else if ofShare := vocabulary.FindString(text); ofAll == "" || ofShare != ofAll {
			t.Errorf("a share of the data has the vocabulary%s, all of it%s", ofShare, ofAll)
		}
	}
	// The file holds no module, so that the speed of the programs is unknown.
	if text := contentOf(t, file); !regexp.MustCompile(`\n  share: (2[5-9]|3[0-9])%`).MatchString(text) {
		t.Errorf("%s", text)
	}
	lines := 0
	for _, program := range []string{"scorer.py", "trainer.py", "client.py"} {
		lines += strings.Count(contentOf(t, filepath.Join(folder, program)), "\n")
	}
	if lines >= 80 || contentOf(t, filepath.Join(folder, "model.py")) != "mine" {
		t.Errorf("the programs have %d lines, or the module was replaced", lines)
	}
	must.Do(t, os.Remove(file))
	refuses(t, ".py already exists; --force replaces it", "init", file, "--data", data, "--trainer", "torch")
	if _, err := os.Stat(file); err == nil {
		t.Error("an experiment file was written beside programs of somebody else")
	}
}

// A run would fail without PyTorch: init says so, and does not try the programs.
func TestInitNamesPythonWithoutTorch(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	writeFile(t, filepath.Join(bin, "python3"), "#!/bin/sh\nexit 1\n")
	must.Do(t, os.Chmod(filepath.Join(bin, "python3"), 0o700))
	for path, want := range map[string]string{bin: filepath.Join(bin, "python3") + " has no PyTorch, so a run would fail: install PyTorch", t.TempDir(): "PATH has no python3 with PyTorch"} {
		dir := t.TempDir()
		dataOfInit[0].write(t, filepath.Join(dir, "posts.csv"), posts(1, 400, 30, 12))
		command := exec.CommandContext(t.Context(), os.Args[0], "init", "--data", "posts.csv", "--trainer", "torch")
		command.Dir, command.Env = dir, append(os.Environ(), asCommand+"=1", "PATH="+path)
		if output, err := command.CombinedOutput(); err != nil || strings.Count(string(output), want) != 1 || strings.Contains(string(output), "not measured") {
			t.Errorf("%v: %s", err, output)
		}
	}
}

func TestShareOfDataFitsTimeBudget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		all, few     float64
		tried, least int
		budget       float64
		want         int
	}{
		"between":            {100, 10, 10, 1, 50, 50},
		"below the tried":    {1000, 100, 10, 1, 50, 5},
		"less than canaries": {1000, 100, 10, 8, 10, 8},
		"half is the start":  {100, 55, 10, 1, 75, 50},
		"equal times":        {100, 100, 10, 2, 50, 2},
	} {
		if got := fittingPercent(c.all, c.few, c.tried, c.least, c.budget); got != c.want {
			t.Errorf("%s: %d%%, want %d%%", name, got, c.want)
		}
	}
}

func TestInitProgramsKeepContractsElsewhere(t *testing.T) {
	t.Parallel()
	python := testserver.Python(t, "numpy, torch")
	dir := t.TempDir()
	data, folder := filepath.Join(dir, "posts.csv"), filepath.Join(dir, "trainer")
	dataOfInit[0].write(t, data, posts(1, 400, 30, 12))
	program := must.Get(exec.LookPath(python))(t)
	asUser := func(args ...string) { // whose python3 has PyTorch, and nothing of Coalmine
		t.Helper()
		command := exec.CommandContext(t.Context(), os.Args[0], args...)
		command.Env = append(os.Environ(), asCommand+"=1", "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "PYTHONPATH=")
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, output)
		}
	}
	for _, algorithm := range []string{"sgd", "fedavg"} {
		file := filepath.Join(dir, algorithm+".yaml")
		prints(t, "init", file, "--data", data, "--trainer", "torch", "--algorithm", algorithm, "--force")
		asUser("run", file, "--home", filepath.Join(dir, "home"), "--set", "audit.random_sampling.references=50")
	}
	asUser("contract", "check", "score", "--command", "python3 -B "+folder+"/scorer.py")
	asUser("contract", "check", "train", "--command", "python3 trainer.py", "--code", folder)
	asUser("contract", "check", "client", "--command", "python3 -B "+folder+"/client.py")
}
