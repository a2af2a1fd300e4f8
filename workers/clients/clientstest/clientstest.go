// Package clientstest provides a program of the contract "client" for tests of its callers: the
// test's own binary in another role.
//
//	func TestMain(m *testing.M) { clientstest.Main(m) }
//
//	client, err := pool.Borrow(ctx, clientprograms.Setting{Program: clientstest.Program("")})
//
// Its model gives every token the same probability at any position: softmax(scale x weights). It
// learns by one step of gradient descent for each example. It predicts the labels of images.
package clientstest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"coalmine/models"
	"coalmine/storage/safetensors"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/text"
)

// serve is the argument that makes a test's binary train instead of testing.
const serve = "serve-client"

// Main runs tests, or trains if this process is the program.
func Main(m *testing.M) {
	Serve()
	os.Exit(m.Run())
}

// Serve trains and does not return, if this process is the program.
func Serve() {
	if len(os.Args) < 2 || os.Args[1] != serve {
		return
	}
	if err := converse(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Command returns the command line of the program.
func Command() string { return "'" + os.Args[0] + "' " + serve }

// Faults of a program; "" for none.
const (
	NaN        = "nan"         // parameters that are not finite
	Shape      = "shape"       // shapes other than described
	Name       = "name"        // names other than described
	Integers   = "integers"    // tensors of 32-bit integers
	Cut        = "cut"         // a file without its last bytes
	Grows      = "grows"       // a far too large file
	NoFile     = "no file"     // a missing file
	Pipe       = "pipe"        // a pipe in place of a file
	Device     = "device"      // a link to a device that can be read forever
	Dies       = "dies"        // the process exits in the middle of fit
	DiesHalf   = "half"        // the process is killed while it writes an answer
	DiesAtOnce = "module"      // the process exits at its start
	Remembers  = "remembers"   // keeps its earlier state
	Busy       = "busy"        // answers a temporary error
	Refuses    = "refuses"     // answers a permanent error
	Random     = "random"      // different answers each time
	Twice      = "twice"       // answers twice
	Never      = "never"       // does not answer
	Silent     = "silent"      // closes its standard output and lives on
	Prints     = "prints"      // prints between messages
	NoExamples = "no examples" // reports no examples
	HalfLoss   = "half a loss" // reports a loss without targets
	Changes    = "changes"     // changes the file that it was to read
	Lingers    = "lingers"     // continues after the end of its input
	ShapeLater = "shape later" // different shapes in the second fit
	Guesses    = "guesses"     // more right guesses than targets
	Infinite   = "infinite"    // a loss that is too large for JSON
	ManyPairs  = "many pairs"  // more answers than pairs
	Text       = "text"        // no fault: it reads texts
	Version1   = "version 1"   // no fault: it takes one user at a time

	NoUsers    = "no users"     // accepts no users at once
	OtherMany  = "other many"   // users learn more together than separately
	Stale      = "stale"        // the second file of several users is never written
	FewerUsers = "fewer users"  // answers fewer users than requested
	Unclipped  = "unclipped"    // does not clip the sum
	HalfSum    = "half a sum"   // halves the sum
	NoNorm     = "no norm"      // omits the norms of a sum
	WrongTree  = "wrong tree"   // wrong scores of nodes
	Diverges   = "diverges"     // the second user of a sum diverges
	DiesOfMany = "dies of many" // the process exits in the middle of the first fit_many or sum of all
)

// Program returns a program with a fault.
func Program(fault string) clientprograms.Program {
	config, _ := json.Marshal(map[string]any{"fault": fault, "rate": 0.1}) // texts and numbers become JSON
	command := Command()
	if fault == Silent || fault == DiesHalf {
		command = "exec " + command // a shell would hold the output open, or report the signal by an exit status
	}
	return clientprograms.Program{Command: command, Config: config}
}

type request struct {
	ID     int64  `json:"id"`
	Method string `json:"method"`
	Config struct {
		Fault string  `json:"fault"`
		Rate  float64 `json:"rate"`
		Died  string  `json:"died"` // path of the file that records that DiesOfMany has died
	} `json:"config"`
	Vocabulary struct {
		Size      int    `json:"size"`
		FirstWord int32  `json:"first_word"`
		Words     string `json:"words"`
	} `json:"vocabulary"`
	Image      *models.ImageShape   `json:"image"`
	Parameters string               `json:"parameters"`
	Into       string               `json:"into"`
	Examples   examples             `json:"examples"`
	Pairs      [][2]json.RawMessage `json:"pairs"`
	Seed       uint64               `json:"seed"`
	Users      []struct {
		Examples examples `json:"examples"`
	} `json:"users"`
	Files   []string  `json:"files"`
	PerFile int       `json:"per_file"`
	Stamp   string    `json:"stamp"`
	Clip    float64   `json:"clip"`
	Weights []float64 `json:"weights"`
	Tree    *struct {
		Parents []int   `json:"parents"`
		Tokens  []int32 `json:"tokens"`
	} `json:"tree"`
}

// examples are lists of tokens, or texts. An image becomes its label, preceded by a token that is not a
// target.
type examples []json.RawMessage

func (e *examples) UnmarshalJSON(data []byte) error {
	var images struct {
		Shape  [4]int
		Pixels []byte
		Labels []*int32
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil {
		*e = list
		return nil
	}
	if err := json.Unmarshal(data, &images); err != nil {
		return err
	}
	if s := images.Shape; s[0] != len(images.Labels) || s[0]*s[1]*s[2]*s[3] != len(images.Pixels) {
		return fmt.Errorf("images of the shape %v with %d labels and %d pixels", s, len(images.Labels), len(images.Pixels))
	}
	for _, label := range images.Labels {
		tokens := []int32{0}
		if label != nil {
			tokens = append(tokens, text.FirstWord+*label)
		}
		text, err := json.Marshal(tokens)
		if err != nil {
			return err
		}
		*e = append(*e, text)
	}
	return nil
}

type server struct {
	request   // the describe request
	numbers   map[string]int32
	fits      int
	manies    int // number of requests for several users
	remaining float32
}

func converse(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	var s server
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		if err := s.reply(out, &r); err != nil {
			return err
		}
	}
	if s.Config.Fault == Lingers {
		time.Sleep(time.Hour)
	}
	return lines.Err()
}

var errDiverged = errors.New("diverged")

// retryError is a temporary error.
type retryError struct{ error }

func (s *server) reply(out io.Writer, r *request) error {
	answer := map[string]any{"id": r.ID}
	result, err := s.answer(r)
	_, retry := errors.AsType[retryError](err)
	if err != nil {
		said := map[string]any{"message": err.Error(), "retry": retry}
		if errors.Is(err, errDiverged) {
			said["diverged"] = map[string]any{"user": 1, "step": 3, "name": "loss", "value": "nan"}
		}
		answer["error"] = said
	} else {
		answer["result"] = result
	}
	line, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	if r.Method == "fit" || r.Method == "evaluate" {
		line = s.spoil(line)
	}
	_, err = out.Write(append(line, '\n'))
	return err
}

// spoil applies some faults to a line.
func (s *server) spoil(line []byte) []byte {
	switch s.Config.Fault {
	case Twice:
		return []byte(string(line) + "\n" + string(line))
	case DiesHalf:
		_, _ = os.Stdout.Write(line[:len(line)/2])
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		time.Sleep(time.Hour)
	case Prints:
		return []byte("epoch 1 of 3\n" + string(line))
	case Infinite:
		return []byte(strings.Replace(string(line), `"loss":`, `"loss":1e999,"was":`, 1))
	case Never:
		time.Sleep(time.Hour)
	case Silent:
		os.Stdout.Close()
		time.Sleep(time.Hour)
	}
	return line
}

func (s *server) answer(r *request) (any, error) {
	switch r.Method {
	case "describe":
		return s.describe(r)
	case "initial":
		return struct{}{}, s.write(r.Into, s.initial(r.Seed))
	case "fit":
		return s.fit(r)
	case "fit_many":
		return s.fitMany(r)
	case "sum":
		return s.sum(r)
	case "evaluate":
		return s.evaluate(r)
	case "loglikelihood":
		return s.score(r)
	}
	return nil, fmt.Errorf("no method %q", r.Method)
}

func (s *server) describe(r *request) (any, error) {
	if r.Config.Fault == DiesAtOnce {
		fmt.Fprintln(os.Stderr, "ModuleNotFoundError: No module named 'torch'")
		os.Exit(1)
	}
	s.request = *r
	var words []string
	data, err := os.ReadFile(r.Vocabulary.Words)
	if err == nil {
		err = json.Unmarshal(data, &words)
	}
	if s.numbers = map[string]int32{}; err == nil {
		for i, w := range words {
			s.numbers[w] = int32(i)
		}
	}
	input := clientprograms.TokensInput
	if r.Config.Fault == Text {
		input = clientprograms.TextInput
	}
	if r.Image != nil {
		input = clientprograms.ImagesInput
	}
	about := map[string]any{
		"contract": "coalmine/client", "version": 2, "program": "unigrams 1", "input": input, "deterministic": true,
		"parameters": []map[string]any{{"name": "weights", "shape": []int{r.Vocabulary.Size}}, {"name": "scale", "shape": []int{}}},
		"fit_many":   map[string]any{"users": 2, "sum": true, "tolerance": 1e-6}, "tree": true,
	}
	switch r.Config.Fault {
	case Version1:
		about["version"] = 1
	case NoUsers:
		about["fit_many"] = map[string]any{"users": 0, "tolerance": 1e-6}
	}
	return about, err
}

type model struct {
	weights []float32
	scale   float32
}

func (s *server) initial(seed uint64) model {
	rng := rand.New(rand.NewPCG(seed, 0))
	m := model{weights: make([]float32, s.Vocabulary.Size), scale: 1}
	for i := range m.weights {
		m.weights[i] = float32(rng.NormFloat64() / 10)
	}
	return m
}

func (s *server) fit(r *request) (any, error) {
	s.fits++
	switch s.Config.Fault {
	case Dies:
		fmt.Fprintln(os.Stderr, "Killed")
		os.Exit(137)
	case Busy:
		return nil, retryError{errors.New("the device is busy")}
	case Refuses:
		return nil, errors.New("an example is too long")
	}
	m, err := s.read(r.Parameters)
	if err != nil {
		return nil, err
	}
	loss, targets := s.train(&m, s.tokens(r.Examples))
	if s.Config.Fault == Changes {
		err := errors.Join(os.Chmod(r.Parameters, 0o600), os.WriteFile(r.Parameters, []byte("mine"), 0o600))
		if err != nil {
			return nil, err
		}
	}
	return s.fitted(len(r.Examples), loss, targets), s.write(r.Into, m)
}

func (s *server) fitted(examples int, loss float64, targets int) any {
	metrics := map[string]any{"loss": loss / float64(max(1, targets)), "targets": targets, "seconds": 0.5}
	switch s.Config.Fault {
	case NoExamples:
		examples = 0
	case HalfLoss:
		delete(metrics, "targets")
	}
	return map[string]any{"examples": examples, "metrics": metrics}
}

// train takes a step for each example, and returns the loss before the steps and the number of targets.
func (s *server) train(m *model, examples [][]int32) (loss float64, targets int) {
	m.scale += s.remaining
	for _, e := range examples {
		logs := m.logs()
		gradient := make([]float64, len(logs))
		for _, token := range e[1:] {
			loss -= logs[token]
			targets++
			for i, l := range logs {
				gradient[i] += math.Exp(l)
			}
			gradient[token]--
		}
		for i := range gradient {
			m.weights[i] -= float32(s.Config.Rate * gradient[i] / float64(max(1, len(e)-1)))
		}
	}
	switch s.Config.Fault {
	case Remembers:
		s.remaining += 0.25
	case Random:
		m.scale += float32(rand.Float64())
	}
	return loss, targets
}

// logs returns the log-probabilities of all tokens.
func (m *model) logs() []float64 {
	logs, sum := make([]float64, len(m.weights)), 0.0
	for i, w := range m.weights {
		logs[i] = float64(w) * float64(m.scale)
		sum += math.Exp(logs[i])
	}
	for i := range logs {
		logs[i] -= math.Log(sum)
	}
	return logs
}

// best returns the most probable token.
func best(logs []float64) int32 {
	at := 0
	for i, l := range logs {
		if l > logs[at] {
			at = i
		}
	}
	return int32(at)
}

func (s *server) evaluate(r *request) (any, error) {
	m, err := s.read(r.Parameters)
	if err != nil {
		return nil, err
	}
	logs := m.logs()
	loss, targets, correct := 0.0, 0, 0
	for _, e := range s.tokens(r.Examples) {
		for _, token := range e[1:] {
			if token < s.Vocabulary.FirstWord {
				continue
			}
			targets++
			if loss -= logs[token]; token == best(logs) {
				correct++
			}
		}
	}
	if s.Config.Fault == Guesses {
		correct = targets + 1
	}
	return map[string]any{"loss": loss / float64(max(1, targets)), "targets": targets, "correct": correct}, nil
}

func (s *server) score(r *request) (any, error) {
	m, err := s.read(r.Parameters)
	if err != nil {
		return nil, err
	}
	logs := m.logs()
	if r.Tree != nil {
		return s.scoreTree(r, logs), nil
	}
	answers := make([][2]any, 0, len(r.Pairs))
	for _, pair := range r.Pairs {
		sum, greedy := 0.0, true
		for _, token := range s.number(pair[1]) {
			sum += logs[token]
			greedy = greedy && token == best(logs)
		}
		answers = append(answers, [2]any{sum, greedy})
	}
	if s.Config.Fault == ManyPairs {
		answers = append(answers, [2]any{-1, false})
	}
	return answers, nil
}

// tokens returns the examples of a request, each after a token that is not a target.
func (s *server) tokens(examples []json.RawMessage) [][]int32 {
	all := make([][]int32, len(examples))
	for i, e := range examples {
		if all[i] = s.number(e); s.Config.Fault == Text {
			all[i] = append([]int32{0}, all[i]...)
		}
	}
	return all
}

// number decodes a list of tokens, or a text of the vocabulary's words.
func (s *server) number(raw json.RawMessage) (tokens []int32) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		_ = json.Unmarshal(raw, &tokens) // leaves a list of tokens
		return tokens
	}
	for _, w := range strings.Fields(text) {
		tokens = append(tokens, s.numbers[w])
	}
	return tokens
}

func (s *server) read(path string) (m model, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	file, err := safetensors.Unmarshal(data)
	if err != nil {
		return m, err
	}
	weights, _ := file.Tensor("weights")
	scale, ok := file.Tensor("scale")
	if !ok || len(scale.Float32) != 1 {
		return m, errors.New("the file has no scale")
	}
	return model{weights.Float32, scale.Float32[0]}, nil
}

func tensorsOf(m model) []safetensors.Tensor {
	return []safetensors.Tensor{{Name: "weights", Shape: []int{len(m.weights)}, Float32: m.weights}, {Name: "scale", Shape: []int{}, Float32: []float32{m.scale}}}
}

func (s *server) write(path string, m model) error {
	tensors := tensorsOf(m)
	switch fault := s.Config.Fault; {
	case s.fits == 0: // initial parameters are never wrong
	case fault == NaN:
		m.weights[1] = float32(math.NaN())
	case fault == Shape, fault == ShapeLater && s.fits > 1:
		tensors[0].Shape, tensors[0].Float32 = []int{len(m.weights) - 1}, m.weights[1:]
	case fault == Name:
		tensors[0].Name = "wights"
	case fault == NoFile:
		return nil
	case fault == Pipe:
		return exec.Command("mkfifo", path).Run()
	case fault == Device:
		return os.Symlink("/dev/zero", path)
	case fault == Grows:
		return grown(path)
	}
	data, err := safetensors.Marshal(tensors, nil)
	if err != nil {
		return err
	}
	switch {
	case s.fits == 0:
	case s.Config.Fault == Integers:
		data = bytes.ReplaceAll(data, []byte(`"F32"`), []byte(`"I32"`))
	case s.Config.Fault == Cut:
		data = data[:len(data)-3]
	}
	return os.WriteFile(path, data, 0o600)
}

// grown makes a far too long file of zeros.
func grown(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(1<<30), file.Close())
}
