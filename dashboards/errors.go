package dashboards

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"coalmine/internal/goroutines"
	"coalmine/internal/secrets"
	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
)

// Errors of the server. The client returns them, too.
var (
	// ErrUnauthorized: no valid token came with the request.
	ErrUnauthorized = errors.New("a valid token is needed: give --token-file, set COALMINE_TOKEN, or log in")
	// ErrForbidden: the token permits only reading.
	ErrForbidden = errors.New("the token allows only reading; this needs the operator token")
	// ErrTooLarge: the body is larger than the server accepts.
	ErrTooLarge = errors.New("too large")
)

// errorKind is the transferred form of an error: the client converts the kind
// to the error, so that errors.Is works on both sides.
type errorKind struct {
	kind   string
	status int
	err    error
}

// errorKinds are in order of precedence: an error may wrap several.
var errorKinds = []errorKind{
	{"unauthorized", http.StatusUnauthorized, ErrUnauthorized},
	{"forbidden", http.StatusForbidden, ErrForbidden},
	{"too-large", http.StatusRequestEntityTooLarge, ErrTooLarge},
	{"no-run", http.StatusNotFound, control.ErrNoRun},
	{"no-worker", http.StatusNotFound, control.ErrNoWorker},
	{"ambiguous", http.StatusBadRequest, control.ErrAmbiguous},
	{"input", http.StatusBadRequest, control.ErrInput},
	{"experiment", http.StatusUnprocessableEntity, control.ErrExperiment},
	{"state", http.StatusConflict, runs.ErrState},
	{"key", http.StatusConflict, control.ErrKey},
	{"standby", http.StatusConflict, leadership.ErrStandby},
	{"led", http.StatusConflict, leadership.ErrLed},
	{"name", http.StatusBadRequest, storage.ErrName},
	{"not-found", http.StatusNotFound, storage.ErrNotFound},
	{"exists", http.StatusConflict, storage.ErrExists},
	{"corrupt", http.StatusInternalServerError, storage.ErrCorrupt},
	{"newer", http.StatusNotImplemented, storage.ErrNewer},
	{"full", http.StatusInsufficientStorage, storage.ErrFull},
	{"away", http.StatusServiceUnavailable, storage.ErrAway},
	{"unsuitable", http.StatusInternalServerError, storage.ErrUnsuitable},
	{"unknown", http.StatusInternalServerError, storage.ErrUnknown},
	{"cancelled", http.StatusServiceUnavailable, context.Canceled},
	{"timeout", http.StatusGatewayTimeout, context.DeadlineExceeded},
}

// internalError is the kind of all other errors.
var internalError = errorKind{kind: "internal", status: http.StatusInternalServerError}

func kindOf(err error) errorKind {
	if goroutines.IsPanic(err) {
		return internalError // even if it wraps ErrInput: the input may be right
	}
	for _, k := range errorKinds {
		if errors.Is(err, k.err) {
			return k
		}
	}
	return internalError
}

// ErrorKind returns the kind that the API's answers give an error, "" for an internal error.
func ErrorKind(err error) string {
	if k := kindOf(err); k.kind != internalError.kind {
		return k.kind
	}
	return ""
}

// kindHeader holds the kind of an error, like the body, because the answer to HEAD has no body.
const kindHeader = "Coalmine-Error"

// errorBody is the JSON of every error.
type errorBody struct {
	Error string `json:"error"`
	Kind  string `json:"kind"`
}

func writeError(w http.ResponseWriter, k errorKind, message string) {
	if k.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="coalmine"`)
	}
	w.Header().Set(kindHeader, k.kind)
	w.Header().Del("Content-Disposition")
	writeJSON(w, k.status, errorBody{secrets.RedactPasswords(message), k.kind})
}

// writeJSON answers with one JSON object. A v that cannot be encoded is a bug;
// a client that has disconnected is not an error.
func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded","kind":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}
