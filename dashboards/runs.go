package dashboards

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/lists"
	"coalmine/privacy"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
	"coalmine/workflows/results/dataexport"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// Largest bodies of requests. A run's record is at most storage.MaxCreate, but
// it travels in base64 within JSON.
const (
	maxSpecBytes  = 4 << 20
	maxSteerBytes = 1 << 20
	// maxRecordBytes bounds the unpacked bytes of concurrently posted records. Further requests wait.
	maxRecordBytes = 2 * (runs.MaxDocument + maxSpecBytes)
)

// runName returns the name of the run in the path; "" is the newest.
func runName(r *http.Request) string {
	if name := r.PathValue("run"); name != experiment.Latest {
		return name
	}
	return ""
}

// runList is the answer to GET /runs.
type runList struct {
	Runs []*status.Run `json:"runs"`
}

func (s *Server) list(ctx context.Context) (runList, error) {
	all, err := s.api.List(ctx)
	if all == nil {
		all = []*status.Run{}
	}
	return runList{all}, err
}

func (s *Server) listRuns(r *http.Request) (runList, error) { return s.list(r.Context()) }

func (s *Server) showRun(r *http.Request) (*status.Run, error) {
	return s.api.Status(r.Context(), runName(r))
}

func (s *Server) submitRun(w http.ResponseWriter, r *http.Request) error {
	fresh, err := strconv.ParseBool(cmp.Or(r.URL.Query().Get("fresh"), "false"))
	if err != nil {
		return fmt.Errorf("fresh=%q %w: expected true or false", r.URL.Query().Get("fresh"), control.ErrInput)
	}
	submit := s.submitSpec
	if contentType(r) == fileType {
		submit = s.submitFile
	}
	submitted, err := submit(w, r, fresh)
	if err != nil {
		return err
	}
	s.options.Log.Info("run submitted", slog.String("run", submitted.Run), slog.Bool("continued", submitted.Continued))
	status := http.StatusCreated
	if submitted.Continued {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/api/v1/runs/"+submitted.Run)
	writeJSON(w, status, submitted)
	return nil
}

// submitSpec submits a run's record, which the client has checked.
func (s *Server) submitSpec(w http.ResponseWriter, r *http.Request, fresh bool) (control.Submitted, error) {
	if err := expectJSON(r); err != nil {
		return control.Submitted{}, fmt.Errorf("%w (a run record) or %s (an experiment file)", err, fileType)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSpecBytes))
	if err != nil {
		return control.Submitted{}, bodyError(err)
	}
	size := runs.UnpackedSize(body)
	if err := s.records.Acquire(r.Context(), size); err != nil {
		return control.Submitted{}, err
	}
	defer s.records.Release(size)
	var spec runs.Spec
	if err := decodeJSON(r, bytes.NewReader(body), &spec); err != nil {
		return control.Submitted{}, err
	}
	return s.api.Submit(r.Context(), spec, fresh)
}

// fileType is the media type of experiment files (RFC 9512).
const fileType = "application/yaml"

// submitFile checks and submits an experiment file.
func (s *Server) submitFile(w http.ResponseWriter, r *http.Request, fresh bool) (control.Submitted, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, experiment.MaxFileSize))
	if err != nil {
		return control.Submitted{}, bodyError(err)
	}
	query := r.URL.Query()
	file := control.File{Name: cmp.Or(query.Get("name"), "experiment"), Text: text, Sets: query["set"]}
	if given := query.Get("priority"); given != "" {
		priority, err := strconv.Atoi(given)
		if err != nil {
			return control.Submitted{}, fmt.Errorf("priority=%.40q %w: expected a whole number", given, control.ErrInput)
		}
		file.Priority = &priority
	}
	newFlow(w, nil) // reading the data may take a long time
	return s.api.SubmitFile(r.Context(), file, fresh)
}

// commands are the entries that users write.
var commands = []runs.Kind{
	runs.PauseEntry, runs.ResumeEntry, runs.CancelEntry, runs.RetryEntry, runs.PinEntry, runs.Prioritized, runs.NoteEntry, runs.TagEntry,
}

// steered is the answer to a command.
type steered struct {
	Run string `json:"run"`
}

func (s *Server) steerRun(w http.ResponseWriter, r *http.Request) error {
	var e runs.Entry
	if err := readJSON(w, r, maxSteerBytes, &e); err != nil {
		return err
	}
	command := runs.Entry{Kind: e.Kind, Priority: e.Priority, Pinned: e.Pinned, Keys: e.Keys, Cells: e.Cells, Note: e.Note, Tags: e.Tags}
	if !slices.Contains(commands, e.Kind) {
		return fmt.Errorf("%.40q %w: expected kind to be one of %q", e.Kind, control.ErrInput, commands)
	}
	if !reflect.DeepEqual(e, command) {
		return fmt.Errorf("%q %w: a command has the fields kind, keys, cells, pinned, priority, note and tags only", e.Kind, control.ErrInput)
	}
	run, err := s.api.Steer(r.Context(), runName(r), command)
	if err != nil {
		return err
	}
	s.options.Log.Info("run steered", slog.String("run", run), slog.String("command", string(e.Kind)))
	writeJSON(w, http.StatusOK, steered{run})
	return nil
}

func (s *Server) removeRun(r *http.Request) (*control.Removed, error) {
	removed, err := s.api.Remove(r.Context(), runName(r))
	if err == nil {
		s.options.Log.Info("run removed", slog.String("run", removed.Run))
	}
	return removed, err
}

func (s *Server) showWorkers(r *http.Request) (*status.Fleet, error) {
	return s.api.Workers(r.Context())
}

// drained is the answer to a request to drain.
type drained struct {
	Workers []string `json:"workers"`
}

func (s *Server) drainWorker(r *http.Request) (drained, error) {
	ids, err := s.api.Drain(r.Context(), r.PathValue("worker"))
	if err == nil {
		s.options.Log.Info("workers drained", slog.Any("workers", ids))
	}
	return drained{ids}, err
}

func (s *Server) runExperiment(w http.ResponseWriter, r *http.Request) error {
	spec, err := s.api.Experiment(r.Context(), runName(r))
	if err != nil {
		return err
	}
	switch format := r.URL.Query().Get("format"); format {
	case "", "json":
		writeJSON(w, http.StatusOK, spec)
		return nil
	case "yaml":
		text, err := spec.YAML()
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", fileType)
		_, err = w.Write(text)
		return err
	default:
		return fmt.Errorf("answer %w: format %q of an experiment; expected json or yaml", control.ErrInput, format)
	}
}

func (s *Server) runResults(w http.ResponseWriter, r *http.Request) error {
	format, err := results.FormatNamed(cmp.Or(r.URL.Query().Get("format"), "json"))
	if err != nil {
		return fmt.Errorf("answer %w: %w", control.ErrInput, err)
	}
	rows := results.Rows(cmp.Or(r.URL.Query().Get("rows"), string(results.Cells)))
	if err := format.Has(rows); err != nil {
		return fmt.Errorf("answer %w: %w", control.ErrInput, err)
	}
	if rows == results.RoundRows || format.Pictures {
		newFlow(w, nil) // many rounds may take a long time
	}
	var b bytes.Buffer
	id, err := s.writeResults(r.Context(), &b, runName(r), format, rows)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", format.MediaType)
	asDocument(w)
	if format.Extension != "" {
		dispose(w, format.Disposition(), id+format.Extension)
	}
	send(w, b.Bytes())
	return nil
}

// writeResults writes the outcome of a run, and returns the id.
func (s *Server) writeResults(ctx context.Context, w io.Writer, run string, f results.Format, rows results.Rows) (id string, err error) {
	if rows == results.RoundRows {
		found, err := s.api.Rounds(ctx, run)
		if err != nil {
			return "", err
		}
		return found.Run, found.Write(w, f.Name)
	}
	found, err := control.ResultsFor(ctx, s.api, run, f)
	if err != nil {
		return "", err
	}
	if err := found.WriteRows(w, f.Name, rows); err != nil {
		return "", fmt.Errorf("results of run %s: %w", found.Run, err)
	}
	return found.Run, nil
}

// runTable is the answer to GET /runs/{run}/table: the results as a table, and their available formats.
type runTable struct {
	*results.Table
	Formats []resultFormat `json:"formats"`
}

type resultFormat struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

func (s *Server) showTable(r *http.Request) (answer runTable, err error) {
	found, err := s.api.Results(r.Context(), runName(r))
	if err != nil {
		return answer, err
	}
	if cell := r.URL.Query().Get("cell"); cell != "" {
		if found, err = found.Of(cell); err != nil {
			return answer, err
		}
	}
	if answer.Table, err = found.Table(); err != nil {
		return answer, fmt.Errorf("results of run %s: %w", found.Run, err)
	}
	answer.Formats = lists.Map(results.Formats(), func(f results.Format) resultFormat { return resultFormat{f.Name, f.Description} })
	return answer, nil
}

func (s *Server) exportModel(w http.ResponseWriter, r *http.Request) error {
	round, err := modelRound(r.URL.Query().Get("round"))
	if err != nil {
		return err
	}
	cell := r.PathValue("cell")
	model, err := s.api.Model(r.Context(), runName(r), cell, round)
	if err != nil {
		return err
	}
	sendModel(w, modelName(r), model)
	return nil
}

func (s *Server) exportPrepared(w http.ResponseWriter, r *http.Request) error {
	model, err := s.api.Prepared(r.Context(), runName(r), r.PathValue("cell"), r.PathValue("name"))
	if err != nil {
		return err
	}
	sendModel(w, modelName(r), model)
	return nil
}

func sendModel(w http.ResponseWriter, name string, model []byte) {
	w.Header().Set("Content-Type", "application/octet-stream")
	attach(w, name)
	send(w, model)
}

// newestRound requests the newest stored model.
const newestRound = "newest"

// modelRound parses the round in a request.
func modelRound(text string) (int, error) {
	switch text {
	case "":
		return control.LastRound, nil
	case newestRound:
		return control.NewestRound, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("round=%.40q %w: expected a number of rounds, 0 for the initial model, %s for the newest stored model, or no round for the final model", text, control.ErrInput, newestRound)
	}
	return n, nil
}

// modelName returns the file name of a model, from the parameters of the request.
func modelName(r *http.Request) string {
	name := r.PathValue("run")
	for _, part := range []string{r.PathValue("cell"), r.PathValue("name"), r.URL.Query().Get("round")} {
		if part != "" {
			name += "-" + part
		}
	}
	return name + ".safetensors"
}

// dataTypes are the media types of dataexport.Formats.
var dataTypes = map[dataexport.Format]string{
	dataexport.JSONLines: "application/jsonl",
	dataexport.Parquet:   "application/vnd.apache.parquet",
}

// exportData sends a table while it is read. After an error the connection is
// cut, so that the answer does not look complete.
func (s *Server) exportData(w http.ResponseWriter, r *http.Request) error {
	table, format := r.PathValue("table"), cmp.Or(r.URL.Query().Get("format"), string(dataexport.JSONLines))
	w.Header().Set("Content-Type", dataTypes[dataexport.Format(format)])
	attach(w, table+"."+format)
	sent := &countedWriter{w: newFlow(w, nil)}
	err := s.api.Data(r.Context(), runName(r), r.PathValue("cell"), dataexport.Table(table), dataexport.Format(format), sent)
	if err == nil || sent.n == 0 {
		return err
	}
	if r.Context().Err() == nil {
		s.options.Log.Error("export aborted", slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	panic(http.ErrAbortHandler)
}

// countedWriter counts the bytes that it passes on, and keeps the first error.
type countedWriter struct {
	w   io.Writer
	n   int64
	err error
}

func (c *countedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.err = cmp.Or(c.err, err)
	return n, err
}

// nodeList is the answer to GET /runs/{run}/nodes.
type nodeList struct {
	Nodes []control.Node `json:"nodes"`
}

func (s *Server) listNodes(r *http.Request) (nodeList, error) {
	which, err := nodeQuery(r)
	if err != nil {
		return nodeList{}, err
	}
	nodes, err := s.api.Nodes(r.Context(), runName(r), which)
	return nodeList{nodes}, err
}

// nodeQuery parses the selection of nodes in a request.
func nodeQuery(r *http.Request) (control.NodeQuery, error) {
	which, query := control.NodeQuery{Cell: r.PathValue("cell")}, r.URL.Query()
	if !query.Has("keys") && !query.Has("after") {
		return which, nil
	}
	after, err := positive("after", cmp.Or(query.Get("after"), "0"), 0)
	which.Changes = &control.NodeChanges{After: after}
	if keys := query.Get("keys"); keys != "" {
		which.Changes.Keys = strings.Split(keys, ",")
	}
	return which, err
}

func (s *Server) showLineage(r *http.Request) (*control.Lineage, error) {
	return s.api.Lineage(r.Context(), runName(r), r.PathValue("cell"), r.PathValue("key"))
}

// cellPrivacy answers with numbers, or with a figure.
func (s *Server) cellPrivacy(w http.ResponseWriter, r *http.Request) error {
	var format figureFormat
	if name := r.URL.Query().Get("format"); name != "" && name != "json" {
		var err error
		if format, err = figureFormatOf(r); err != nil {
			return err
		}
	}
	spent, err := s.api.Spending(r.Context(), runName(r), r.PathValue("cell"))
	if err != nil {
		return err
	}
	if format.name == "" {
		writeJSON(w, http.StatusOK, spent)
		return nil
	}
	figure, err := privacy.EpsilonFigure(spent.Reports())
	if err != nil {
		return fmt.Errorf("picture %w: %w", control.ErrInput, err)
	}
	return format.send(w, figure)
}

// curvePoints is the default number of rounds of a curve.
const curvePoints = 1000

func (s *Server) cellCurve(r *http.Request) (*results.Curve, error) {
	points, err := positive("points", cmp.Or(r.URL.Query().Get("points"), strconv.Itoa(curvePoints)), control.MinPoints)
	if err != nil {
		return nil, err
	}
	return s.api.Curve(r.Context(), runName(r), r.PathValue("cell"), points)
}

// canaryPoints is the default number of rounds for which canaries are reported.
const canaryPoints = 100

func (s *Server) cellCanaries(r *http.Request) (*results.CanaryLives, error) {
	points, err := positive("points", cmp.Or(r.URL.Query().Get("points"), strconv.Itoa(canaryPoints)), control.MinPoints)
	if err != nil {
		return nil, err
	}
	return s.api.Canaries(r.Context(), runName(r), r.PathValue("cell"), points)
}

func (s *Server) canaryReferences(r *http.Request) (*control.Surroundings, error) {
	number, err := positive("number", r.PathValue("number"), 0)
	if err != nil {
		return nil, err
	}
	round := control.LastRound
	if text := r.URL.Query().Get("round"); text != "" {
		if round, err = positive("round", text, 1); err != nil {
			return nil, err
		}
	}
	return s.api.Surroundings(r.Context(), runName(r), r.PathValue("cell"), number, round)
}

func (s *Server) runHistory(r *http.Request) (*control.History, error) {
	return s.api.History(r.Context(), runName(r))
}

// runLog is the answer to GET /runs/{run}/logs.
type runLog struct {
	Logs []control.AttemptLog `json:"logs"`
}

func (s *Server) runLogs(r *http.Request) (runLog, error) {
	logs, err := s.api.Logs(r.Context(), runName(r), r.URL.Query().Get("node"))
	if logs == nil {
		logs = []control.AttemptLog{}
	}
	return runLog{logs}, err
}

// columnList is the answer to GET /columns.
type columnList struct {
	Columns []explainedColumn `json:"columns"`
}

// explainedColumn is a column with its explanation as a sentence.
type explainedColumn struct {
	results.Column
	About string `json:"about"`
}

func (s *Server) listColumns(*http.Request) (columnList, error) {
	return columnList{lists.Map(results.Columns(), func(c results.Column) explainedColumn {
		return explainedColumn{c, c.Sentence()}
	})}, nil
}

// shownVersion is the answer to GET /version.
type shownVersion struct {
	Version string `json:"version"`
}

func (s *Server) showVersion(*http.Request) (shownVersion, error) {
	return shownVersion{s.options.Version}, nil
}

// attach makes browsers save the answer under a name.
func attach(w http.ResponseWriter, name string) { dispose(w, "attachment", name) }

// dispose makes browsers show the answer ("inline") or save it ("attachment"), under a name.
func dispose(w http.ResponseWriter, how, name string) {
	w.Header().Set("Content-Disposition", mime.FormatMediaType(how, map[string]string{"filename": name}))
}

// send answers with data of any size. A client that has disconnected is not an error.
func send(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = newFlow(w, nil).Write(data)
}
