package dashboards

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"coalmine/internal/goroutines"
	"coalmine/workflows/control"
)

// handler answers a request, or returns the error that answers it.
type handler func(w http.ResponseWriter, r *http.Request) error

// answering is a handler that answers with a value as JSON.
func answering[T any](ask func(r *http.Request) (T, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		answer, err := ask(r)
		if err == nil {
			writeJSON(w, http.StatusOK, answer)
		}
		return err
	}
}

// route is a pattern of http.ServeMux and the least role for it.
type route struct {
	pattern string
	role    role
	handler handler
}

// routes are those of the API and the pages.
func (s *Server) routes() []route {
	return []route{
		{"GET /api/v1/runs", reader, answering(s.listRuns)},
		{"POST /api/v1/runs", operator, s.submitRun},
		{"GET /api/v1/runs/{run}", reader, answering(s.showRun)},
		{"GET /api/v1/runs/{run}/events", reader, s.runEvents},
		{"POST /api/v1/runs/{run}/steer", operator, s.steerRun},
		{"DELETE /api/v1/runs/{run}", operator, s.removeRun},
		{"POST /api/v1/gc", operator, s.collect},
		{"GET /api/v1/workers", reader, answering(s.showWorkers)},
		{"GET /api/v1/workers/events", reader, s.workerEvents},
		{"POST /api/v1/workers/{worker}/drain", operator, answering(s.drainWorker)},
		{"GET /api/v1/runs/{run}/experiment", reader, s.runExperiment},
		{"GET /api/v1/runs/{run}/results", reader, s.runResults},
		{"GET /api/v1/runs/{run}/table", reader, s.showTable},
		{"GET /api/v1/runs/{run}/figures", reader, answering(s.listFigures)},
		{"GET /api/v1/runs/{run}/figures/{number}", reader, s.showFigure},
		{"POST /api/v1/figures", reader, s.drawFigure},
		{"GET /api/v1/runs/{run}/pictures", reader, s.listPictures},
		{"GET /api/v1/runs/{run}/cells/{cell}/pictures", reader, s.listPictures},
		{"GET /api/v1/runs/{run}/cells/{cell}/pictures/{round}/{number}", reader, s.showPicture},
		{"GET /api/v1/runs/{run}/model", reader, s.exportModel},
		{"GET /api/v1/runs/{run}/cells/{cell}/model", reader, s.exportModel},
		{"GET /api/v1/runs/{run}/prepared/{name}", reader, s.exportPrepared},
		{"GET /api/v1/runs/{run}/cells/{cell}/prepared/{name}", reader, s.exportPrepared},
		{"GET /api/v1/runs/{run}/nodes", reader, s.listNodes},
		{"GET /api/v1/runs/{run}/cells/{cell}/nodes", reader, s.listNodes},
		{"GET /api/v1/runs/{run}/cells/{cell}/nodes/{key}", reader, answering(s.showLineage)},
		{"GET /api/v1/runs/{run}/data/{table}", reader, s.exportData},
		{"GET /api/v1/runs/{run}/cells/{cell}/data/{table}", reader, s.exportData},
		{"GET /api/v1/runs/{run}/cells/{cell}/privacy", reader, s.cellPrivacy},
		{"GET /api/v1/runs/{run}/cells/{cell}/curve", reader, answering(s.cellCurve)},
		{"GET /api/v1/runs/{run}/cells/{cell}/canaries", reader, s.cellCanaries},
		{"GET /api/v1/runs/{run}/cells/{cell}/canaries/{number}/references", reader, s.canaryReferences},
		{"GET /api/v1/runs/{run}/history", reader, answering(s.runHistory)},
		{"GET /api/v1/runs/{run}/logs", reader, answering(s.runLogs)},
		{"GET /api/v1/events", reader, s.listEvents},
		{"HEAD /api/v1/sources/{digest}", reader, s.hasSource},
		{"PUT /api/v1/sources/{digest}", operator, s.putSource},
		{"GET /api/v1/openapi.yaml", reader, s.showDocument},
		{"GET /api/v1/version", reader, answering(s.showVersion)},
		{"GET /api/v1/session", reader, answering(s.showSession)},

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
}

func (s *Server) mux(routes []route) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.pattern, s.serve(r))
	}
	return answerUnrouted(mux)
}

// serve lets through who has the role, and turns errors into answers.
func (s *Server) serve(route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := s.access.role(r)
		if who < route.role {
			s.refuse(w, r, who)
			return
		}
		defer s.audience.note(r)()
		setFormat(w.Header())
		if err := requestFormat.Check(formatOf(r.Header)); err != nil {
			s.answerError(w, r, err)
			return
		}
		r = r.WithContext(control.TellingChoices(r.Context(), func(c control.Choice) { setChoice(w.Header(), c) }))
		if err := route.handler(w, r); err != nil {
			s.answerError(w, r, err)
		}
	}
}

// refuse sends people to the login page, and programs an error that names the
// missing permission.
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

// answerUnrouted words the answer to requests that no route fits as all errors
// of the API are.
func answerUnrouted(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" || !isAPI(r) {
			mux.ServeHTTP(w, r)
			return
		}
		missed := &statusOnly{header: w.Header()}
		h.ServeHTTP(missed, r) // sets Allow if only the method is wrong
		message := "there is no " + r.URL.Path + " in this API; see docs/api.md"
		if missed.status == http.StatusMethodNotAllowed {
			message = r.Method + " is not what " + r.URL.Path + " takes; allowed are: " + w.Header().Get("Allow")
		}
		writeError(w, errorKind{kind: "route", status: missed.status}, message)
	})
}

// statusOnly keeps the status and the headers of an answer and drops the rest.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
