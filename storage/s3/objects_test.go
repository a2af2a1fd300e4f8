package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/s3"
)

func bucketOf(t *testing.T, config s3.Config) *s3.Bucket {
	t.Helper()
	return must.Get(s3.NewBucket(config))(t)
}

func TestObjectURLsKeepTheirKey(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"s3://bucket/a/b.jsonl?endpoint=http://localhost:1": "a/b.jsonl",
		"s3://bucket/prefix/":                               "prefix/",
		"s3://bucket/":                                      "",
		"s3://bucket/with%20space/%C3%A9=1.jsonl":           "with space/é=1.jsonl",
	} {
		config, key, err := s3.ParseObjectURL(url)
		if err != nil || key != want || config.Bucket != "bucket" || config.Prefix != "" {
			t.Errorf("%s: %+v, %q, %v", url, config, key, err)
		}
	}
	for url, part := range map[string]string{
		"s3://key:secret@bucket/a":    "credentials",
		"s3://bucket/a?password=x":    "parameter",
		"http://bucket/a":             "want s3://",
		"s3://bucket/a?endpoint=ftp:": "endpoint",
	} {
		_, _, err := s3.ParseObjectURL(url)
		must.Say(t, err, part)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q repeats the secret", err)
		}
	}
}

func TestBucketListsAndReadsObjects(t *testing.T) {
	t.Parallel()
	server := testserver.StartS3(t)
	ctx := t.Context()
	config := configFor(t, server, server.URL("data"))
	store := must.Get(s3.OpenConfig(ctx, config))(t)
	for _, name := range []string{"a.jsonl", "b.jsonl", "sub/c.jsonl"} {
		must.Do(t, store.Put(ctx, name, strings.NewReader(name), storage.Durable))
	}
	b := bucketOf(t, config)
	var keys []string
	for o, err := range b.List(ctx, "data/") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	if got := strings.Join(keys, " "); got != "data/a.jsonl data/b.jsonl data/sub/" {
		t.Errorf("listed %s", got)
	}
	found, err := b.Stat(ctx, "data/a.jsonl")
	if err != nil || found.Size != 7 {
		t.Fatalf("found %+v, %v", found, err)
	}
	if data, err := readObject(t, b, found); err != nil || string(data) != "a.jsonl" {
		t.Errorf("read %q, %v", data, err)
	}
	must.Do(t, store.Put(ctx, "a.jsonl", strings.NewReader("another"), storage.Durable))
	_, err = readObject(t, b, found)
	must.Say(t, err, "data/a.jsonl", "it changed while it was read")
	refusals(t, config)
}

// refusals tests the requests that a real server refuses.
func refusals(t *testing.T, config s3.Config) {
	t.Helper()
	_, err := bucketOf(t, config).Stat(t.Context(), "data/absent")
	must.Say(t, err, "data/absent", "not found", "correct the key")
	if !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("an absent object: %v", err)
	}
	absent := config
	absent.Bucket = "no-such-bucket"
	_, err = bucketOf(t, absent).Stat(t.Context(), "a")
	must.Say(t, err, `there is no bucket "no-such-bucket"`)
	for _, err := range bucketOf(t, absent).List(t.Context(), "a") {
		must.Say(t, err, `there is no bucket "no-such-bucket"`)
	}
	wrong := config
	wrong.SecretKey = "wrong-secret"
	_, err = bucketOf(t, wrong).Stat(t.Context(), "data/a.jsonl")
	must.Say(t, err, "refuses to let it be read", "AWS_ACCESS_KEY_ID")
	if strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("%q repeats the secret", err)
	}
}

func readObject(t *testing.T, b *s3.Bucket, o s3.Object) ([]byte, error) {
	t.Helper()
	r, err := b.Open(t.Context(), o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func TestBrokenReadResumesAndShortObjectFails(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	data := bytes.Repeat([]byte("0123456789"), 100)
	f.objects["/bucket/o"] = data
	b := bucketOf(t, f.config())
	found, err := b.Stat(t.Context(), "o")
	if err != nil {
		t.Fatal(err)
	}
	f.answer(func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("ETag", `"tag"`)
			w.Header().Set("Last-Modified", lastModified)
			_, _ = w.Write(data[:300])
		}
		return n == 1 // the connection breaks, since 700 bytes are missing
	})
	if got, err := readObject(t, b, found); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	f.answer(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("ETag", `"tag"`)
		w.Header().Set("Last-Modified", lastModified)
		_, _ = w.Write(data[:300])
		return true
	})
	_, err = readObject(t, b, found)
	must.Say(t, err, "s3://bucket/o", "ended after 300 of 1000 bytes")
}

// A server that hands the same continuation token out again would be listed for ever.
func TestRepeatedContinuationTokenEndsList(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s := f.open(t)
	for name, tokens := range map[string][]string{"one page again and again": {"a"}, "two pages in turn": {"a", "b"}} {
		f.answer(func(n int, w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprintf(w, `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%s</NextContinuationToken>`+
				`<Contents><Key>p/x%d</Key><LastModified>2026-11-21T00:00:00.000Z</LastModified></Contents></ListBucketResult>`, tokens[n%len(tokens)], n)
			return true
		})
		listed := 0
		var err error
		for _, err = range s.List(t.Context(), "") {
			if listed++; listed > 10 {
				t.Fatalf("%s: listed %d objects, and no end", name, listed)
			}
		}
		if err == nil || !strings.Contains(err.Error(), "continuation token repeats") || f.asked() > 3 {
			t.Errorf("%s: %v after %d requests", name, err, f.asked())
		}
	}
}
