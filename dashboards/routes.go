package dashboards

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/workflows/control"
)

// handler answers a request, or returns the error that answers it.
type handler func(w http.ResponseWriter, r *http.Request) error

// endpoint is an operation with its handler.
type endpoint struct {
	description
	handler handler
}

// answered answers an operation with a value as JSON.
func answered[A any](o operation[A], ask func(r *http.Request) (A, error)) endpoint {
	return endpoint{description(o), func(w http.ResponseWriter, r *http.Request) error {
		answer, err := ask(r)
		if err == nil {
			writeJSON(w, http.StatusOK, answer)
		}
		return err
	}}
}

// handled lets a handler answer an operation in another way.
func handled[A any](o operation[A], h handler) endpoint { return endpoint{description(o), h} }

// endpoints returns all operations of the API.
func (s *Server) endpoints() []endpoint {
	return []endpoint{
		answered(listRuns, s.listRuns),
		handled(submitRun, s.submitRun),
		answered(showRun, s.showRun),
		answered(removeRun, s.removeRun),
		handled(runEvents, s.runEvents),
		handled(listEvents, s.listEvents),
		handled(steerRun, s.steerRun),
		handled(collect, s.collect),
		answered(showWorkers, s.showWorkers),
		handled(followWorkers, s.followWorkers),
		answered(drainWorker, s.drainWorker),
		handled(runExperiment, s.runExperiment),
		handled(runResults, s.runResults),
		answered(showTable, s.showTable),
		answered(listFigures, s.listFigures),
		handled(showFigure, s.showFigure),
		handled(drawFigure, s.drawFigure),
		answered(listPictures, s.listPictures),
		handled(showPicture, s.showPicture),
		handled(exportModel, s.exportModel),
		handled(exportPrepared, s.exportPrepared),
		answered(listNodes, s.listNodes),
		answered(showLineage, s.showLineage),
		handled(exportData, s.exportData),
		handled(cellPrivacy, s.cellPrivacy),
		answered(cellCurve, s.cellCurve),
		answered(cellCanaries, s.cellCanaries),
		answered(canaryReferences, s.canaryReferences),
		answered(runHistory, s.runHistory),
		answered(runLogs, s.runLogs),
		handled(hasSource, s.hasSource),
		handled(putSource, s.putSource),
		answered(listColumns, s.listColumns),
		answered(showVersion, s.showVersion),
		answered(showSession, s.showSession),
		handled(showDocument, s.showDocument),
	}
}

// route is a pattern of http.ServeMux and the minimum role for it.
type route struct {
	pattern string
	role    role
	handler handler
}

// routes returns the routes of the API and the pages.
func (s *Server) routes() []route {
	routes := []route{
		{"GET /{$}", reader, s.showPage},
		{"GET /runs/{run}", reader, s.showPage},
		{"GET /runs/{run}/cells/{cell}", reader, s.showPage},
		{"GET /runs/{run}/privacy", reader, s.showPage},
		{"GET /compare", reader, s.showPage},
		{"GET /workers", reader, s.showPage},
		{"GET /app/{file}", nobody, builtFile},
		{"GET /assets/{file}", nobody, asset},
		{"GET " + loginPath, nobody, s.showLogin},
		{"POST " + loginPath, nobody, s.login},
		{"POST /logout", nobody, s.logout},
	}
	for _, e := range s.endpoints() {
		for _, d := range e.variants() {
			least := reader
			if d.operator {
				least = operator
			}
			routes = append(routes, route{d.method() + " " + apiPath + d.path(), least, e.serve})
		}
	}
	return routes
}

// serve removes the deadline of a slow operation.
func (e endpoint) serve(w http.ResponseWriter, r *http.Request) error {
	if e.slow {
		newFlow(w, nil)
	}
	return e.handler(w, r)
}

func (s *Server) mux(routes []route) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.pattern, s.serve(r))
	}
	return answerUnrouted(mux)
}

// serve checks the role of a request, and turns errors into answers.
func (s *Server) serve(route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sender := s.access.role(r)
		if sender < route.role {
			s.refuse(w, r, sender)
			return
		}
		defer s.audience.note(r)()
		setFormat(w.Header())
		if err := requestFormat.Check(formatOf(r.Header)); err != nil {
			s.answerError(w, r, err)
			return
		}
		r = r.WithContext(control.WithChoiceReporter(r.Context(), func(c control.Choice) { setChoice(w.Header(), c) }))
		if err := route.handler(w, r); err != nil {
			s.answerError(w, r, err)
		}
	}
}

// refuse sends people to the login page, and programs an error that names the missing permission.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, who role) {
	if who == nobody && !isAPI(r) {
		http.Redirect(w, r, s.external.path(loginPath)+"?next="+url.QueryEscape(localPage(r.URL.RequestURI())), http.StatusSeeOther)
		return
	}
	err := ErrUnauthorized
	if who != nobody {
		err = ErrForbidden
	}
	s.answerError(w, r, err)
}

func (s *Server) answerError(w http.ResponseWriter, r *http.Request, err error) {
	k := kindOf(err)
	goroutines.LogPanic(s.options.Log, err, "method", r.Method, "path", r.URL.Path)
	if k.status >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.options.Log.Error("request failed", slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	writeError(w, k, err.Error())
}

// isAPI distinguishes requests of programs from those of people.
func isAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == metricsPath
}

// answerUnrouted answers requests without a route with an error in the form of the API.
func answerUnrouted(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" || !isAPI(r) {
			mux.ServeHTTP(w, r)
			return
		}
		missed := &statusOnly{header: w.Header()}
		h.ServeHTTP(missed, r) // sets Allow if only the method is wrong
		message := "the API has no path " + r.URL.Path + "; see docs/api.md"
		if missed.status == http.StatusMethodNotAllowed {
			message = r.URL.Path + " does not allow " + r.Method + "; allowed: " + w.Header().Get("Allow")
		}
		writeError(w, errorKind{kind: "route", status: missed.status}, message)
	})
}

// statusOnly keeps the status and the headers of an answer and drops its body.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }

// web holds the pages. Those below app are built from page by scripts/build-page.sh.
//
//go:embed web
var web embed.FS

// loadPage reads the page and adds the path of a proxy.
func (s *Server) loadPage() error {
	page, err := web.ReadFile("web/app/index.html")
	if err != nil {
		return err
	}
	s.page = []byte(s.external.inPage(string(page)))
	return nil
}

// showPage serves the page, which is the same for all paths: its script reads the path and asks the API.
func (s *Server) showPage(w http.ResponseWriter, r *http.Request) error {
	http.ServeContent(w, r, "index.html", time.Time{}, bytes.NewReader(s.page))
	return nil
}

// builtFile serves a part of the page. Its name has a digest of its content, so that
// browsers may cache it.
func builtFile(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeFileFS(w, r, web, "web/app/"+r.PathValue("file"))
	return nil
}

func asset(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, web, "web/assets/"+r.PathValue("file"))
	return nil
}

// License is the licence of a package in the page.
type License struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Identifier is the SPDX identifier: "MIT".
	Identifier string `json:"identifier"`
	Text       string `json:"text"`
}

// Licenses returns the licences of the packages in the page, as listed by its build.
func Licenses() ([]License, error) {
	list, err := web.ReadFile("web/app/licenses.json")
	if err != nil {
		return nil, err
	}
	var licenses []License
	if err := json.Unmarshal(list, &licenses); err != nil {
		return nil, fmt.Errorf("web/app/licenses.json: %w", err)
	}
	return licenses, nil
}
