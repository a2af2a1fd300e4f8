//go:build unix

package clientprograms

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

func newWorkspace(t *testing.T) *childprocess.Workspace {
	t.Helper()
	w := must.Get(childprocess.NewWorkspace())(t)
	t.Cleanup(w.Remove)
	return w
}

func TestPackCodeIsDeterministic(t *testing.T) {
	t.Parallel()
	code := fstest.MapFS{
		"train.py": {Data: []byte("print()"), Mode: 0o644, ModTime: time.Unix(1, 0)}, "sub/run.sh": {Data: []byte("#!"), Mode: 0o700},
		".git/config": {Data: []byte("x")}, "sub/__pycache__/a.pyc": {Data: []byte("x")}, "sub/out/code.py": {Data: []byte("x")},
		"in/job.json": {Data: []byte("x")}, "out/model": {Data: []byte("x")}, "checkpoint/n": {Data: []byte("x")}, "tmp": {Data: []byte("x")},
	}
	first := must.Get(PackCode(code, nil))(t)
	code["train.py"].ModTime, code["sub/run.sh"].Mode = time.Unix(99, 0), 0o755
	if second, err := PackCode(code, nil); err != nil || !bytes.Equal(first, second) {
		t.Errorf("times and rights of others change the archive: %v", err)
	}
	w := newWorkspace(t)
	must.Do(t, Packed(first).Unpack(t.Context(), w))
	files, err := w.List(".")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v: want the three of the code", files, err)
	}
	if info, err := os.Stat(w.Path() + "/sub/run.sh"); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("the script cannot be run: %v, %v", info, err)
	}
	if _, err := PackCode(fstest.MapFS{".hidden": {}}, nil); err == nil || !strings.Contains(err.Error(), "holds no files") {
		t.Errorf("no code: %v", err)
	}
	large := fstest.MapFS{"a": {Data: make([]byte, MaxCode/2)}, "b": {Data: make([]byte, MaxCode/2+1)}}
	if _, err := PackCode(large, nil); err == nil || err.Error() != "it holds 67108865 bytes; expected at most 67108864" {
		t.Errorf("too much code: %v", err)
	}
	if err := Packed(first[:300]).Unpack(t.Context(), w); err == nil {
		t.Error("half an archive is unpacked")
	}
}

// An archive of another program may hold files that a command would take for its own.
func TestUnpackSkipsReservedPaths(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	files := tar.NewWriter(&archive)
	for _, name := range []string{"out/model", "run.sh"} {
		must.Do(t, files.WriteHeader(&tar.Header{Name: name, Mode: 0o644}))
	}
	must.Do(t, files.Close())
	w := newWorkspace(t)
	must.Do(t, Packed(archive.Bytes()).Unpack(t.Context(), w))
	if found, err := w.List("."); err != nil || len(found) != 1 || found[0].Name != "run.sh" {
		t.Errorf("%v, %v: want the script alone", found, err)
	}
}

// A changed byte of a script leaves a sound archive, and one of a header does not.
func TestCodeDamagedInTheStoreIsRejectedByDigest(t *testing.T) {
	t.Parallel()
	code := must.Get(PackCode(fstest.MapFS{"train.py": {Data: []byte("rate = 0.1")}}, nil))(t)
	for name, position := range map[string]int{"script": bytes.Index(code, []byte("0.1")), "header": 1} {
		damaged := bytes.Clone(code)
		damaged[position] ^= 1
		store := storagetest.NewMemory()
		archive := storage.NewArchive(store)
		digest, _, err := archive.PutSource(t.Context(), bytes.NewReader(code))
		must.Do(t, err)
		must.Do(t, store.Put(t.Context(), "sources/"+digest.String(), bytes.NewReader(damaged), storage.Durable))
		open := Code(func(ctx context.Context) (io.ReadCloser, error) { return archive.OpenSource(ctx, digest) })
		if err := open.Unpack(t.Context(), newWorkspace(t)); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("a byte of the %s is wrong: %v; want an error of the digest", name, err)
		}
	}
}
