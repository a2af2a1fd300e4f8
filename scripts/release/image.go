package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"coalmine/internal/build"
)

// imageUser owns /cache and runs the program, as in deploy/coalmine.Dockerfile.
const imageUser = 65532

// Media types of the OCI image specification 1.1.
const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor names a blob of an image.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type imageConfig struct {
	Created time.Time `json:"created"`
	platform
	Config struct {
		User       string            `json:"User"`
		Env        []string          `json:"Env"`
		Entrypoint []string          `json:"Entrypoint"`
		Labels     map[string]string `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// dockerImage is an entry of manifest.json, for versions of docker load that do not read indexes.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// image is an OCI image layout with an index of one image for each architecture.
type image struct {
	made   time.Time
	files  []file
	index  index
	docker []dockerImage
}

// newImage makes an image for Linux from programs by architecture, each with its accompanying files.
func newImage(programs map[string][]byte, beside []file, made time.Time) ([]byte, error) {
	m := &image{made: made, index: index{2, indexType, nil}}
	architectures := slices.Sorted(maps.Keys(programs))
	for _, architecture := range architectures {
		if err := m.add(platform{architecture, "linux"}, append([]file{{"coalmine", programs[architecture], true}}, beside...)); err != nil {
			return nil, err
		}
	}
	all, err := m.blobOf(indexType, m.index)
	if err != nil {
		return nil, err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": build.Version, "io.containerd.image.name": "docker.io/library/coalmine:" + build.Version}
	for name, content := range map[string]any{
		"oci-layout": map[string]string{"imageLayoutVersion": "1.0.0"}, "index.json": index{2, indexType, []descriptor{all}}, "manifest.json": m.docker,
	} {
		text, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		m.files = append(m.files, file{name: name, content: text})
	}
	slices.SortFunc(m.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var b bytes.Buffer
	err = writeTar(&b, m.files, nil, made)
	return b.Bytes(), err
}

// add adds the image of a platform: one layer with its files.
func (m *image) add(p platform, files []file) error {
	layer, id, err := layerOf(files, m.made)
	if err != nil {
		return err
	}
	c := imageConfig{Created: m.made, platform: p}
	c.Config.User, c.Config.Entrypoint = fmt.Sprintf("%d:%d", imageUser, imageUser), []string{"/coalmine"}
	c.Config.Env = []string{"PATH=/"}
	c.Config.Labels = map[string]string{"org.opencontainers.image.title": "coalmine", "org.opencontainers.image.version": build.Version, "org.opencontainers.image.licenses": "Apache-2.0"}
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{id}
	config, err := m.blobOf(configType, c)
	if err != nil {
		return err
	}
	stored := m.blob(layerType, layer)
	of, err := m.blobOf(manifestType, manifest{2, manifestType, config, []descriptor{stored}})
	of.Platform = &p
	m.index.Manifests = append(m.index.Manifests, of)
	m.docker = append(m.docker, dockerImage{config.path(), []string{"coalmine:" + build.Version + "-" + p.Architecture}, []string{stored.path()}})
	return err
}

func (m *image) blobOf(mediaType string, content any) (descriptor, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return descriptor{}, err
	}
	return m.blob(mediaType, text), nil
}

// blob stores a blob under its digest.
func (m *image) blob(mediaType string, content []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digestOf(content), Size: len(content)}
	m.files = append(m.files, file{name: d.path(), content: content})
	return d
}

// path is the place of a blob in the layout.
func (d *descriptor) path() string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// layerOf packs files into a compressed layer, with an empty /cache of the user and /tmp. id is the digest of
// the uncompressed layer.
func layerOf(files []file, made time.Time) (layer []byte, id string, err error) {
	folders := []tar.Header{{Name: "cache/", Mode: 0o755, Uid: imageUser, Gid: imageUser}, {Name: "tmp/", Mode: 0o1777}}
	var plain, packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level exists
	err = writeTar(io.MultiWriter(&plain, z), files, folders, made)
	if err := errors.Join(err, z.Close()); err != nil {
		return nil, "", err
	}
	return packed.Bytes(), digestOf(plain.Bytes()), nil
}

// authorities are the certificates of Mozilla's list, at the module's version. Certificates trusted under conditions
// are left out, because the file cannot state conditions.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return b.Bytes()
}
