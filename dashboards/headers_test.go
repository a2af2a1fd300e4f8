package dashboards

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"coalmine/storage"
)

func TestNewerRequestFormatIsRejectedWithItsBuild(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	for stamp, want := range map[string]int{"": http.StatusOK, "1 v0.1": http.StatusOK, "no number": http.StatusOK, "1000 v9.9": http.StatusNotImplemented} {
		a := c.ask(t, http.MethodGet, "/api/v1/runs", nil, http.Header{formatHeader: {stamp}, "Authorization": {"Bearer " + c.token}})
		if a.StatusCode != want || storage.ParseStamp(a.Header.Get(formatHeader)) != answerFormat.Stamp() {
			t.Errorf("a request with the stamp %q: %s, header %q", stamp, a.Status, a.Header.Get(formatHeader))
		}
		if want != http.StatusOK && (!strings.Contains(a.body, "written by coalmine v9.9 in format 1000") || a.Header.Get(kindHeader) != "newer") {
			t.Errorf("the refusal is %s", a.body)
		}
	}
}

func TestNewerAnswerFormatIsRejectedWithItsBuild(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := formatOf(r.Header); got != requestFormat.Stamp() {
			t.Errorf("the request has the stamp %+v", got)
		}
		w.Header().Set(formatHeader, "1000 v9.9")
		_, _ = w.Write([]byte(`{"runs":[]}`))
	}))
	t.Cleanup(s.Close)
	_, err := client(t, s.URL, "").List(t.Context())
	if !errors.Is(err, storage.ErrNewer) || !strings.Contains(err.Error(), "written by coalmine v9.9 in format 1000") {
		t.Errorf("error %v", err)
	}
}
