package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
)

func putAndGet(t *testing.T, d Driver) {
	s := d.new(t)
	for _, size := range []int{0, 1, 1000, 1 << 20, 3<<20 + 17} {
		for _, durability := range []storage.Durability{storage.Durable, storage.Recomputable} {
			name := fmt.Sprintf("objects/of-size/%d.%d", size, durability)
			data := pattern(size)
			must.Do(t, s.Put(t.Context(), name, bytes.NewReader(data), durability))
			wantObject(t, s, name, data)
			info := must.Get(s.Head(t.Context(), name))(t)
			if info.Name != name || info.Size != int64(size) || time.Since(info.Modified).Abs() > time.Hour {
				t.Errorf("head says %+v of %d bytes stored just now", info, size)
			}
		}
	}
}

func putReplaces(t *testing.T, d Driver) {
	location := d.Location(t)
	one, other := d.Open(t, location), d.Open(t, location)
	put(t, one, "a/b", pattern(5000))
	put(t, other, "a/b", pattern(300))
	wantObject(t, one, "a/b", pattern(300))
}

func putRewinds(t *testing.T, d Driver) {
	s := d.new(t)
	body := bytes.NewReader(pattern(1000))
	must.Get(io.CopyN(io.Discard, body, 600))(t)
	must.Do(t, s.Put(t.Context(), "rewound", body, storage.Durable))
	// An io.ReadSeeker suffices as a body.
	plain := struct{ io.ReadSeeker }{body}
	must.Do(t, s.Put(t.Context(), "plain", plain, storage.Durable))
	wantObject(t, s, "rewound", pattern(1000))
	wantObject(t, s, "plain", pattern(1000))
}

func copies(t *testing.T, d Driver) {
	s := d.new(t)
	put(t, s, "a/original", pattern(5000))
	put(t, s, "b/replaced", pattern(300))
	for _, to := range []string{"b/replaced", "c/new/copy", "b/replaced"} {
		for _, durability := range []storage.Durability{storage.Recomputable, storage.Durable} {
			must.Do(t, s.Copy(t.Context(), "a/original", to, durability))
			wantObject(t, s, to, pattern(5000))
		}
	}
	put(t, s, "a/original", pattern(200))
	wantObject(t, s, "b/replaced", pattern(5000))
	must.Do(t, s.Delete(t.Context(), "b/replaced"))
	wantObject(t, s, "a/original", pattern(200))
	wantObject(t, s, "c/new/copy", pattern(5000))
	if n := len(collect(t, s.List(t.Context(), ""))); n != 2 {
		t.Errorf("%d objects are listed, want two", n)
	}
	for _, from := range []string{"missing", "a", "c/new", "a/original/below"} {
		wantError(t, "copy of "+from, s.Copy(t.Context(), from, "d/nothing", storage.Durable), storage.ErrNotFound)
	}
	_, err := s.Head(t.Context(), "d/nothing")
	wantError(t, "head of a copy of nothing", err, storage.ErrNotFound)
}

func ranges(t *testing.T, d Driver) {
	s := d.new(t)
	data := pattern(10_000)
	put(t, s, "object", data)
	for _, r := range []struct{ offset, length int64 }{
		{0, -1}, {0, 1}, {0, 10_000}, {1, -1}, {1, 1}, {4_000, 5_000}, {9_999, 1}, {9_999, -1}, {0, 0}, {500, 0},
	} {
		got, err := get(t.Context(), s, "object", r.offset, r.length)
		if err != nil {
			t.Errorf("bytes %d+%d: %v", r.offset, r.length, err)
			continue
		}
		end := int64(len(data))
		if r.length >= 0 {
			end = r.offset + r.length
		}
		if !bytes.Equal(got, data[r.offset:end]) {
			t.Errorf("bytes %d+%d: got %s, want %s", r.offset, r.length, digest(got), digest(data[r.offset:end]))
		}
	}
	// A range that reaches beyond the end returns a prefix or an error, never other bytes.
	if got, err := get(t.Context(), s, "object", 9_990, 100); err == nil && !bytes.Equal(got, data[9_990:]) {
		t.Errorf("a range beyond the end gave %s", digest(got))
	}
	if got, err := get(t.Context(), s, "object", 20_000, 5); err == nil && len(got) > 0 {
		t.Errorf("a range after the end gave %s", digest(got))
	}
	if _, err := get(t.Context(), s, "object", -1, 5); err == nil {
		t.Error("a negative offset gave no error")
	}
}

func missingNames(t *testing.T, d Driver) {
	s := d.new(t)
	putAll(t, s, "there/object")
	for _, name := range []string{"missing", "there/missing", "there/object/below", "missing/too"} {
		_, err := get(t.Context(), s, name, 0, -1)
		wantError(t, "get "+name, err, storage.ErrNotFound)
		_, err = get(t.Context(), s, name, 0, 0)
		wantError(t, "get nothing of "+name, err, storage.ErrNotFound)
		_, err = get(t.Context(), s, name, 3, 2)
		wantError(t, "get a range of "+name, err, storage.ErrNotFound)
		_, err = s.Head(t.Context(), name)
		wantError(t, "head "+name, err, storage.ErrNotFound)
		if err := s.Delete(t.Context(), name); err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
		if infos := collect(t, s.List(t.Context(), name)); len(infos) > 0 {
			t.Errorf("list %s: %v", name, infos)
		}
		if names := collect(t, s.Children(t.Context(), name)); len(names) > 0 {
			t.Errorf("children of %s: %v", name, names)
		}
	}
	wantObject(t, s, "there/object", []byte("there/object"))
}

func directoriesAreNoObjects(t *testing.T, d Driver) {
	s := d.new(t)
	putAll(t, s, "a/b/c")
	for _, dir := range []string{"a", "a/b"} {
		_, err := get(t.Context(), s, dir, 0, -1)
		wantError(t, "get "+dir, err, storage.ErrNotFound)
		_, err = s.Head(t.Context(), dir)
		wantError(t, "head "+dir, err, storage.ErrNotFound)
		if err := s.Delete(t.Context(), dir); err != nil {
			t.Errorf("delete %s: %v", dir, err)
		}
	}
	wantObject(t, s, "a/b/c", []byte("a/b/c"))
}

func badNames(t *testing.T, d Driver) {
	s := d.new(t)
	for _, name := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a b", "a\\b", "a:b", "a\x00b", "é", "a~b", "a\n",
		strings.Repeat("x", 513),
	} {
		label := fmt.Sprintf("name %.20q", name)
		wantError(t, "put "+label, s.Put(t.Context(), name, strings.NewReader("x"), storage.Durable), storage.ErrName)
		wantError(t, "copy from "+label, s.Copy(t.Context(), name, "fine", storage.Durable), storage.ErrName)
		wantError(t, "copy to "+label, s.Copy(t.Context(), "fine", name, storage.Durable), storage.ErrName)
		wantError(t, "create "+label, s.Create(t.Context(), name, []byte("x")), storage.ErrName)
		_, err := s.Get(t.Context(), name, 0, -1)
		wantError(t, "get "+label, err, storage.ErrName)
		_, err = s.Head(t.Context(), name)
		wantError(t, "head "+label, err, storage.ErrName)
		wantError(t, "delete "+label, s.Delete(t.Context(), "fine", name), storage.ErrName)
	}
	putAll(t, s, strings.Repeat("x", 100)+"/"+strings.Repeat("y", 200)+"/A.b_c-9", "a..b/...c")
	if infos := collect(t, s.List(t.Context(), "")); len(infos) != 2 {
		t.Errorf("two objects with unusual names are listed as %v", infos)
	}
}

func endedContexts(t *testing.T, d Driver) {
	s := d.new(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, "put", s.Put(ctx, "a", strings.NewReader("x"), storage.Durable), context.Canceled)
	wantError(t, "copy", s.Copy(ctx, "a", "b", storage.Durable), context.Canceled)
	wantError(t, "create", s.Create(ctx, "a", []byte("x")), context.Canceled)
	_, err := s.Head(ctx, "a")
	wantError(t, "head", err, context.Canceled)
	_, err = s.Head(t.Context(), "a")
	wantError(t, "head afterwards", err, storage.ErrNotFound)
}

func list(t *testing.T, d Driver) {
	s := d.new(t)
	// '-' and '.' sort before '/', digits and letters after it.
	names := []string{"a-b/x", "a.b", "a/b-c", "a/b/1", "a/b/2", "a/b0", "a0", "ab/c", "b"}
	shuffled := slices.Clone(names)
	slices.Reverse(shuffled)
	putAll(t, s, shuffled...)
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/b/", "a/b/1", "ab", "b", "c", "a/b/1/x"} {
		var got, want []string
		for _, info := range collect(t, s.List(t.Context(), prefix)) {
			got = append(got, info.Name)
			if info.Size != int64(len(info.Name)) {
				t.Errorf("%s is listed with %d bytes, it has %d", info.Name, info.Size, len(info.Name))
			}
		}
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("list %q: got %q, want %q", prefix, got, want)
		}
	}
	for _, err := range s.List(t.Context(), "a") {
		if err != nil {
			t.Error(err)
		}
		break // a listing can be abandoned
	}
}

func children(t *testing.T, d Driver) {
	s := d.new(t)
	putAll(t, s, "runs/b/spec", "runs/b/log/1", "runs/a/spec", "runs/a-2/spec", "runs/file", "other/x/y", "top")
	for dir, want := range map[string][]string{
		"":           {"other/", "runs/", "top"},
		"runs":       {"a-2/", "a/", "b/", "file"},
		"runs/b":     {"log/", "spec"},
		"runs/b/log": {"1"},
		"run":        nil,
	} {
		if got := collect(t, s.Children(t.Context(), dir)); !slices.Equal(got, want) {
			t.Errorf("children of %q: got %q, want %q", dir, got, want)
		}
	}
}

func deletion(t *testing.T, d Driver) {
	s := d.new(t)
	putAll(t, s, "a/1", "a/2", "a/3", "b/c/d", "e")
	must.Do(t, s.Delete(t.Context(), "a/1", "a/missing", "a/3", "b/c/d"))
	must.Do(t, s.Delete(t.Context(), "e"))
	if err := s.Delete(t.Context()); err != nil {
		t.Fatalf("deleting nothing: %v", err)
	}
	if got := collect(t, s.Children(t.Context(), "")); !slices.Equal(got, []string{"a/"}) {
		t.Errorf("after deletion there is %q, want only a/", got)
	}
	if got := collect(t, s.Children(t.Context(), "a")); !slices.Equal(got, []string{"2"}) {
		t.Errorf("after deletion a holds %q, want only 2", got)
	}
	putAll(t, s, "b/c/d") // a name can be reused
	wantObject(t, s, "b/c/d", []byte("b/c/d"))
}
