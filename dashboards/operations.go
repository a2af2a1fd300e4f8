package dashboards

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/encoding"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
	"coalmine/workflows/runs/retention"
	"coalmine/workflows/runs/status"
)

// operation is an operation of the API; A is the type of its answer in JSON. The server registers it
// (endpoints), the client calls it, and the document describes it.
type operation[A any] description

// description is an operation without the type of its answer.
type description struct {
	id string // in the document
	// route is the method and the path below apiPath.
	route string
	// ofCell summarizes the variant of the route for one cell; empty without a variant.
	ofCell   string
	operator bool // it needs the operator's token
	slow     bool // its answer has no deadline
	summary  string
	// query, takes and gives list the parameters and the bodies of request and answer,
	// separated by spaces: names of components of openapi.yaml, or media types.
	query, takes, gives string
	// answer describes an answer with status 200, created one with 201. Either may be empty.
	answer, created string
}

// apiPath begins every path of the API.
const apiPath = "/api/v1"

// none is the answer of an operation without JSON answers.
type none = struct{}

const (
	binary      = "application/octet-stream"
	figureMedia = "image/svg+xml application/pdf image/png text/csv"
)

var (
	listRuns = operation[runList]{id: "listRuns", route: "GET /runs",
		summary: "All runs, the newest first", gives: "RunList", answer: "the runs"}
	submitRun = operation[control.Submitted]{id: "submitRun", route: "POST /runs", operator: true,
		summary: "Submit a run record, or an experiment file", query: "fresh fileName set priority", takes: "Record " + fileType,
		gives: "Submitted", answer: "an existing run continues", created: "a new run"}
	showRun = operation[*status.Run]{id: "showRun", route: "GET /runs/{run}",
		summary: "The status of a run", gives: "Run", answer: "its status"}
	removeRun = operation[*control.Removed]{id: "removeRun", route: "DELETE /runs/{run}", operator: true, slow: true,
		summary: "Remove the record of a finished run", gives: "Removed", answer: "the objects that a collection can delete"}
	runEvents = operation[none]{id: "runEvents", route: "GET /runs/{run}/events",
		summary: "A stream of a run's status", gives: eventStream, answer: "Server-Sent Events"}
	listEvents = operation[none]{id: "listEvents", route: "GET /events",
		summary: "A stream of the list of runs", gives: eventStream, answer: "Server-Sent Events"}
	steerRun = operation[steered]{id: "steerRun", route: "POST /runs/{run}/steer", operator: true,
		summary: "Pause, resume, cancel, retry, pin, prioritize, note or tag a run", takes: "Command", gives: "Steered", answer: "the run"}
	collect = operation[*retention.Result]{id: "collect", route: "POST /gc", operator: true,
		summary: "Delete the objects that no run needs", takes: "Collect", gives: "Collection " + eventStream, answer: "the deleted objects"}

	showWorkers = operation[*status.Fleet]{id: "showWorkers", route: "GET /workers",
		summary: "The workers of all runs, and the tasks that wait for a slot", gives: "Fleet", answer: "the workers"}
	followWorkers = operation[none]{id: "followWorkers", route: "GET /workers/events",
		summary: "A stream of the workers and waiting tasks", gives: eventStream, answer: "Server-Sent Events"}
	drainWorker = operation[drained]{id: "drainWorker", route: "POST /workers/{worker}/drain", operator: true,
		summary: "Let workers finish their tasks and end", takes: "Empty", gives: "Drained", answer: "the drained workers"}

	runExperiment = operation[*experiment.Spec]{id: "runExperiment", route: "GET /runs/{run}/experiment",
		summary: "The submitted experiment, with its defaults", query: "experimentFormat",
		gives: "Experiment" + " " + fileType, answer: "the resolved experiment"}
	runResults = operation[*results.Results]{id: "runResults", route: "GET /runs/{run}/results",
		summary: "The outcome so far", query: "resultsFormat rows", answer: "the outcome, in the requested format",
		gives: "Outcome text/csv text/html application/vnd.apache.parquet text/x-latex text/plain"}
	// runRounds is runResults with rows=rounds.
	runRounds = operation[*results.Rounds](runResults)
	showTable = operation[runTable]{id: "showTable", route: "GET /runs/{run}/table",
		summary: "The outcome so far, as a table for people", query: "onlyCell", gives: "Table", answer: "the table"}
	listFigures = operation[figureList]{id: "listFigures", route: "GET /runs/{run}/figures",
		summary: "The figures of the report", gives: "FigureList", answer: "the captions of the figures"}
	showFigure = operation[none]{id: "showFigure", route: "GET /runs/{run}/figures/{number}",
		summary: "One figure", query: "figureFormat figureWidth", gives: figureMedia, answer: "the figure"}
	drawFigure = operation[none]{id: "drawFigure", route: "POST /figures",
		summary: "Draw a figure of the client's own numbers", query: "figureFormat figureWidth", takes: "SentFigure", gives: figureMedia, answer: "the figure"}
	listPictures = operation[pictureList]{id: "listPictures", route: "GET /runs/{run}/pictures", ofCell: "The same of one cell", slow: true,
		summary: "The pictures of the audits", query: "onlyRound", gives: "PictureList", answer: "the pictures"}
	showPicture = operation[none]{id: "showPicture", route: "GET /runs/{run}/cells/{cell}/pictures/{round}/{number}",
		summary: "One picture", gives: "image/png", answer: "the picture"}

	exportModel = operation[none]{id: "exportModel", route: "GET /runs/{run}/model", ofCell: "The model of a cell",
		summary: "The model of a run of one cell", query: "modelRound", gives: binary, answer: "a safetensors file"}
	exportPrepared = operation[none]{id: "exportPrepared", route: "GET /runs/{run}/prepared/{name}", ofCell: "A pretrained model of a cell",
		summary: "A pretrained model of a run of one cell", gives: binary, answer: "a safetensors file"}
	listNodes = operation[nodeList]{id: "listNodes", route: "GET /runs/{run}/nodes", ofCell: "The nodes of a cell", slow: true,
		summary: "The nodes of a run and their outputs", query: "keys after", gives: "NodeList", answer: "the nodes"}
	showLineage = operation[*control.Lineage]{id: "showLineage", route: "GET /runs/{run}/cells/{cell}/nodes/{key}",
		summary: "A node among all cells of its run, and the nodes that read it", gives: "Lineage", answer: "the node"}
	exportData = operation[none]{id: "exportData", route: "GET /runs/{run}/data/{table}", ofCell: "A table of the data of a cell",
		summary: "A table of the data of a run of one cell", query: "dataFormat",
		gives: "application/jsonl application/vnd.apache.parquet", answer: "the table, as a stream"}

	cellPrivacy = operation[control.Spending]{id: "cellPrivacy", route: "GET /runs/{run}/cells/{cell}/privacy",
		summary: "The privacy cost of the training so far", query: "privacyFormat figureWidth",
		gives: "Spending " + figureMedia, answer: "numbers, or a picture of them"}
	cellCurve = operation[*results.Curve]{id: "cellCurve", route: "GET /runs/{run}/cells/{cell}/curve",
		summary: "The learning curve of a cell", query: "curvePoints", gives: "Curve", answer: "rounds and measurements so far"}
	cellCanaries = operation[*results.CanaryLives]{id: "cellCanaries", route: "GET /runs/{run}/cells/{cell}/canaries", slow: true,
		summary: "Each canary during the training", query: "canaryPoints", gives: "CanaryLives", answer: "canaries and their outcomes so far"}
	canaryReferences = operation[*control.Surroundings]{id: "canaryReferences", route: "GET /runs/{run}/cells/{cell}/canaries/{number}/references", slow: true,
		summary: "The rank of a canary among random sequences, scored on request", query: "measuredRound",
		gives: "Surroundings", answer: "log-perplexities in nats"}
	runHistory = operation[*control.History]{id: "runHistory", route: "GET /runs/{run}/history",
		summary: "The events of a run", gives: "History", answer: "the newest events, in order"}
	runLogs = operation[runLog]{id: "runLogs", route: "GET /runs/{run}/logs",
		summary: "Logs of attempts", query: "node", gives: "LogList", answer: "the logs"}

	hasSource = operation[none]{id: "hasSource", route: "HEAD /sources/{digest}",
		summary: "Whether a source has been uploaded", answer: "it has"}
	putSource = operation[uploaded]{id: "putSource", route: "PUT /sources/{digest}", operator: true,
		summary: "Upload a source", takes: binary, gives: "Uploaded", answer: "its digest"}
	listColumns = operation[columnList]{id: "listColumns", route: "GET /columns",
		summary: "The columns of results, explained", gives: "ColumnList", answer: "the columns of all tables"}
	showVersion = operation[shownVersion]{id: "showVersion", route: "GET /version",
		summary: "The version of the server", gives: "Version", answer: "the version"}
	showSession = operation[session]{id: "showSession", route: "GET /session",
		summary: "The rights of the sender", gives: "Session", answer: "role and login"}
	showDocument = operation[none]{id: "showDocument", route: "GET /openapi.yaml",
		summary: "This document", gives: fileType, answer: "this document"}
)

func (d *description) method() string {
	method, _, _ := strings.Cut(d.route, " ")
	return method
}

// path returns the path below apiPath.
func (d *description) path() string {
	_, path, _ := strings.Cut(d.route, " ")
	return path
}

// variants returns the operation and, if ofCell is set, its variant for a cell.
func (d *description) variants() []*description {
	if d.ofCell == "" {
		return []*description{d}
	}
	cell := *d
	cell.id += "OfCell"
	cell.route = strings.Replace(d.route, "{run}", "{run}/cells/{cell}", 1)
	cell.summary = d.ofCell
	return []*description{d, &cell}
}

// request makes a request for the operation. The names fill the parameters of its path: an empty
// run means the newest, and an empty cell is left out.
func (o operation[A]) request(ctx context.Context, c *Client, query url.Values, body io.Reader, names ...string) (*http.Request, error) {
	d := description(o)
	path := &d
	if o.ofCell != "" {
		if names[1] == "" {
			names = slices.Delete(names, 1, 2)
		} else {
			path = d.variants()[1]
		}
	}
	segments := strings.Split(strings.Trim(apiPath+path.path(), "/"), "/")
	for i, s := range segments {
		if s == "{run}" {
			names[0] = cmp.Or(names[0], experiment.Latest)
		}
		if strings.HasPrefix(s, "{") {
			s, names = names[0], names[1:]
		}
		segments[i] = url.PathEscape(s)
	}
	target := c.base.JoinPath(segments...)
	target.RawQuery = query.Encode()
	return c.request(ctx, d.method(), target, body)
}

// ask sends a request without a body and returns its answer.
func (o operation[A]) ask(ctx context.Context, c *Client, query url.Values, names ...string) (answer A, err error) {
	request, err := o.request(ctx, c, query, nil, names...)
	if err != nil {
		return answer, err
	}
	return o.send(c, request)
}

// post sends a request with a body in JSON and returns its answer.
func (o operation[A]) post(ctx context.Context, c *Client, query url.Values, body any, names ...string) (answer A, err error) {
	request, err := o.posting(ctx, c, query, body, names...)
	if err != nil {
		return answer, err
	}
	return o.send(c, request)
}

func (o operation[A]) posting(ctx context.Context, c *Client, query url.Values, body any, names ...string) (*http.Request, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.route, err)
	}
	request, err := o.request(ctx, c, query, bytes.NewReader(data), names...)
	if err == nil {
		request.Header.Set("Content-Type", jsonType)
	}
	return request, err
}

func (o operation[A]) send(c *Client, request *http.Request) (answer A, err error) {
	response, err := c.send(request)
	if err != nil {
		return answer, err
	}
	err = json.NewDecoder(response.Body).Decode(&answer)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		var nothing A
		return nothing, c.broken(err)
	}
	return answer, nil
}

// open sends a request without a body and returns the response. The caller closes its body.
func (o operation[A]) open(ctx context.Context, c *Client, query url.Values, names ...string) (*http.Response, error) {
	request, err := o.request(ctx, c, query, nil, names...)
	if err != nil {
		return nil, err
	}
	return c.send(request)
}

// file returns the body of the answer to open.
func (o operation[A]) file(ctx context.Context, c *Client, query url.Values, names ...string) ([]byte, error) {
	response, err := o.open(ctx, c, query, names...)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, c.broken(err)
	}
	return data, nil
}

// openAPI is the document of the API without its paths, for generators of clients; docs/api.md
// describes the API for readers.
//
//go:embed openapi.yaml
var openAPI []byte

func (s *Server) showDocument(w http.ResponseWriter, _ *http.Request) error {
	document, err := s.document()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", fileType)
	send(w, document)
	return nil
}

// document returns openAPI with the paths of the operations.
func document(endpoints []endpoint) ([]byte, error) {
	paths := map[string]map[string]any{}
	for _, e := range endpoints {
		for _, d := range e.variants() {
			path := apiPath + d.path()
			if paths[path] == nil {
				paths[path] = map[string]any{}
			}
			paths[path][strings.ToLower(d.method())] = d.document()
		}
	}
	data, err := json.Marshal(map[string]any{"paths": paths})
	if err != nil {
		return nil, err
	}
	text, err := encoding.YAMLFromJSON(data)
	return slices.Concat(openAPI, text), err
}

// object is a part of the document.
type object = map[string]any

func reference(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

// inPath finds the parameters of a path.
var inPath = regexp.MustCompile(`\{(\w+)\}`)

// document describes an operation.
func (d *description) document() object {
	responses := object{"200": answerOf(d.answer, d.gives), "default": reference("responses", "Error")}
	if d.created != "" {
		responses["201"] = answerOf(d.created, d.gives)
	}
	operation := object{"operationId": d.id, "summary": d.summary, "responses": responses}
	if d.operator {
		operation["description"] = "Needs the operator's token if the server has tokens."
	}
	if d.takes != "" {
		operation["requestBody"] = object{"required": true, "content": contentOf(d.takes)}
	}
	var parameters []object
	for _, name := range inPath.FindAllStringSubmatch(d.path(), -1) {
		parameters = append(parameters, reference("parameters", name[1]))
	}
	for name := range strings.FieldsSeq(d.query) {
		parameters = append(parameters, reference("parameters", name))
	}
	if parameters != nil {
		operation["parameters"] = parameters
	}
	return operation
}

func answerOf(description, gives string) object {
	answer := object{"description": description}
	if gives != "" {
		answer["content"] = contentOf(gives)
	}
	return answer
}

// contentOf describes bodies, each by its media type or the name of its schema.
func contentOf(bodies string) object {
	content := object{}
	for body := range strings.FieldsSeq(bodies) {
		if strings.Contains(body, "/") {
			content[body] = object{}
		} else {
			content[jsonType] = object{"schema": reference("schemas", body)}
		}
	}
	return content
}
