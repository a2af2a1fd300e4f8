package sources

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/source"
)

// readOnly lets only GET through to a server, like credentials that may only
// read.
func readOnly(t *testing.T, endpoint string) string {
	t.Helper()
	target := must.Get(url.Parse(endpoint))(t)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s: reading a source needs more than reading", r.Method, r.URL)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return "?endpoint=" + server.URL
}

// It changes the environment, so it runs alone.
func TestS3SourceMatchesLocalFiles(t *testing.T) {
	server := testserver.StartS3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	files := three()
	files["README.md"] = "text"
	dir := directory(t, files)
	must.Do(t, os.CopyFS(filepath.Join(server.Dir, server.Bucket, "texts"), os.DirFS(dir)))
	query := readOnly(t, server.Endpoint())
	local, remote := find(t, dir), find(t, "s3://"+server.Bucket+"/texts/"+query)
	if want, got := survey(t, local), survey(t, remote); !reflect.DeepEqual(got, want) {
		t.Errorf("in S3 there is %+v, here %+v", got, want)
	}
	to := &shelf{kept: map[storage.Digest]string{}}
	if err := remote.Upload(t.Context(), to); err != nil || to.puts != 3 {
		t.Errorf("%d uploads, %v", to.puts, err)
	}
	for i, d := range local.Digests() {
		if remote.Files[i].Digest != d || !strings.Contains(remote.Files[i].Name, "s3://coalmine/texts/") {
			t.Errorf("file %d is %+v, here it is %s", i, remote.Files[i], d)
		}
	}
	one := find(t, "s3://"+server.Bucket+"/texts/a.jsonl"+query)
	if survey(t, one); len(one.Files) != 1 || one.Files[0].Digest != local.Files[0].Digest {
		t.Errorf("one object is %+v", one.Files)
	}
	for name, says := range map[string]string{
		"texts":       "s3://coalmine/texts",
		"absent.json": "correct the key",
		"absent/":     "holds no data",
		"":            "has the subdirectories texts",
	} {
		found, err := LocalFinder{}.Find(t.Context(), "s3://"+server.Bucket+"/"+name+query, "")
		if err == nil {
			_, err = found.Survey(t.Context(), source.Limits{}, []datasets.Recipe{{VocabularySize: 1}})
		}
		must.Say(t, err, says)
	}
}
