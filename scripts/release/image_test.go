package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/must"
)

// entries reads an archive: contents and headers by name.
func entries(t *testing.T, from io.Reader) (map[string][]byte, map[string]*tar.Header) {
	t.Helper()
	contents, headers := map[string][]byte{}, map[string]*tar.Header{}
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return contents, headers
		}
		must.Do(t, err)
		contents[h.Name], headers[h.Name] = must.Get(io.ReadAll(r))(t), h
	}
}

// programs stand for those of two architectures.
var programs = map[string][]byte{"arm64": []byte("program of arm64"), "amd64": []byte("program of amd64")}

func testImage(t *testing.T) []byte {
	t.Helper()
	return must.Get(containerImage(programs, []file{{name: "LICENSE", content: []byte("license")}, {name: "README.md", content: []byte("page")}}, made))(t)
}

func TestAnImageHasAProgramForEachArchitecture(t *testing.T) {
	t.Parallel()
	packed := testImage(t)
	if !bytes.Equal(packed, testImage(t)) {
		t.Error("two images of the same programs differ")
	}
	layout, _ := entries(t, bytes.NewReader(packed))
	read := func(d descriptor, into any) {
		t.Helper()
		content := layout[d.path()]
		if digestOf(content) != d.Digest || len(content) != d.Size {
			t.Fatalf("the blob %s has %d bytes with the digest %s", d.Digest, len(content), digestOf(content))
		}
		if into != nil {
			must.Do(t, json.Unmarshal(content, into))
		}
	}
	var top, all index
	must.Do(t, json.Unmarshal(layout["index.json"], &top))
	if read(top.Manifests[0], &all); len(all.Manifests) != len(programs) {
		t.Fatalf("%+v", all)
	}
	for _, m := range all.Manifests {
		var of manifest
		var config imageConfig
		read(m, &of)
		read(of.Config, &config)
		read(of.Layers[0], nil)
		plain := must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(layout[of.Layers[0].path()])))(t)))(t)
		files, headers := entries(t, bytes.NewReader(plain))
		if config.platform != *m.Platform || config.RootFS.DiffIDs[0] != digestOf(plain) || config.Config.User != "65532:65532" {
			t.Errorf("%+v of %+v", config, m)
		}
		if !bytes.Equal(files["coalmine"], programs[m.Platform.Architecture]) || headers["coalmine"].Mode != 0o755 || headers["cache/"].Uid != imageUser || files["README.md"] != nil {
			t.Errorf("%s: %+v", m.Platform.Architecture, headers)
		}
		if first, _ := pem.Decode(files["etc/ssl/certs/ca-certificates.crt"]); first == nil || first.Type != "CERTIFICATE" {
			t.Errorf("%s: no certificates", m.Platform.Architecture)
		}
	}
}

// Skopeo reads the image by its index and, as docker load may, by manifest.json.
func TestSkopeoReadsAnImage(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("skopeo"); err != nil {
		t.Skip("needs skopeo: apt-get install skopeo")
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "image.tar")
	must.Do(t, os.WriteFile(path, testImage(t), 0o600))
	for _, architecture := range []string{"amd64", "arm64"} {
		for _, from := range []string{"oci-archive:" + path + ":" + build.Version, "docker-archive:" + path + ":coalmine:" + build.Version + "-" + architecture} {
			to := t.TempDir()
			out, err := exec.Command("skopeo", "--override-arch", architecture, "copy", "--insecure-policy", from, "dir:"+to).CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", from, err, out)
			}
			inspected := must.Get(exec.Command("skopeo", "inspect", "--config", "dir:"+to).Output())(t)
			if !strings.Contains(string(inspected), `"architecture":"`+architecture+`"`) && !strings.Contains(string(inspected), `"architecture": "`+architecture+`"`) {
				t.Errorf("%s: %s", from, inspected)
			}
		}
	}
}
