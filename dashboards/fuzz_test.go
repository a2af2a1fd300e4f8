package dashboards

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/control"
)

// FuzzRequests sends arbitrary requests to the API over a real store: no
// response is a server error, and each failure gives its reason in JSON.
func FuzzRequests(f *testing.F) {
	spec, data := prepared(f)
	record := must.Get(json.Marshal(spec))(f)
	for _, r := range requests {
		f.Add(r.method, r.path, "application/json", []byte(r.body))
	}
	f.Add("POST", "/api/v1/runs", "application/json", record)
	f.Add("POST", "/api/v1/runs?fresh=maybe", "application/json", record)
	f.Add("POST", "/api/v1/runs/tiny/steer", "application/json", []byte(`{"kind":"finished","outcomes":{"c01":"done"}}`))
	f.Add("POST", "/api/v1/runs/tiny/steer", "application/json", []byte(`{"kind":"paused","by":"somebody else"}`))
	f.Add("POST", "/api/v1/runs/tiny/steer", "application/json", []byte(`{"kind":"retried","keys":["00"]}`))
	f.Add("POST", "/api/v1/runs/tiny/steer", "application/json", []byte(`{"kind":"paused"}{}`))
	f.Add("POST", "/api/v1/runs/tiny/steer", "application/json", []byte(`{"kind":"paused","unknown":1}`))
	f.Add("PUT", "/api/v1/sources/"+storage.DigestOf([]byte("x")).String(), "application/json", []byte("x"))
	f.Add("GET", "/api/v1/runs/..%2f..%2fcommits/results?format=exe", "application/json", []byte(nil))
	f.Add("GET", "/api/v1/runs/tiny/cells/c01/model?round=-1", "application/json", []byte(nil))
	f.Add("POST", "/api/v1/runs", fileType, []byte(tiny))
	f.Add("POST", "/api/v1/runs?set=data.source%3D..%2Fx&priority=x", fileType, []byte(tiny))
	f.Add("POST", "/api/v1/runs?set=data.sha256%3D"+storage.DigestOf(data).String(), fileType, []byte(tiny))

	api := control.New(storage.NewArchive(storagetest.NewMemory()), nil, nil)
	must.Get(api.PutSource(f.Context(), bytes.NewReader(data)))(f)
	must.Get(api.Submit(f.Context(), spec, false))(f)
	server := newTestServer(f, api, Options{MaxSourceBytes: 1 << 20})
	server.feeds.close() // so that streams end at once
	f.Fuzz(func(t *testing.T, method, path, contentType string, body []byte) {
		target, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, bytes.NewReader(body))
		if err != nil || target.URL.Host != "localhost" {
			t.Skip("no request")
		}
		target.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		server.handler.ServeHTTP(w, target)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%s %q: %d %s", method, path, w.Code, w.Body)
		}
		if w.Code >= http.StatusBadRequest && isAPI(target) && method != http.MethodHead && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %q: %d, and no JSON: %s", method, path, w.Code, w.Body)
		}
	})
}
