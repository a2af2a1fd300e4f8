package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"coalmine/dashboards"
	"coalmine/internal/build"
)

// bill is a bill of materials in CycloneDX 1.6.
type bill struct {
	Format   string   `json:"bomFormat"`
	Spec     string   `json:"specVersion"`
	Version  int      `json:"version"`
	Metadata metadata `json:"metadata"`
	// Components are the modules that the program links and the packages of its page.
	Components []component `json:"components"`
}

type metadata struct {
	Timestamp time.Time `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type     string          `json:"type"`
	Name     string          `json:"name"`
	Version  string          `json:"version"`
	PURL     string          `json:"purl"`
	Hashes   []hash          `json:"hashes,omitempty"`
	Licenses []licenseChoice `json:"licenses,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type licenseChoice struct {
	Expression string `json:"expression"`
}

// billOfMaterials lists the modules of a program, as recorded by the linker, and the packages of its
// page.
func billOfMaterials(program []byte, made time.Time) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{made, component{
		Type: "application", Name: "coalmine", Version: build.Version, PURL: "pkg:generic/coalmine@" + build.Version,
		Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(program))}}, Licenses: []licenseChoice{{"Apache-2.0"}},
	}}}
	b.Components = append(b.Components, goComponent("std", strings.TrimPrefix(info.GoVersion, "go")))
	for _, m := range info.Deps {
		b.Components = append(b.Components, goComponent(m.Path, m.Version))
	}
	page, err := dashboards.Licenses()
	if err != nil {
		return nil, err
	}
	for _, p := range page {
		b.Components = append(b.Components, component{
			Type: "library", Name: p.Name, Version: p.Version, PURL: "pkg:npm/" + strings.ReplaceAll(p.Name, "@", "%40") + "@" + p.Version, Licenses: []licenseChoice{{p.Identifier}},
		})
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", " ")
	err = e.Encode(b)
	return out.Bytes(), err
}

func goComponent(path, version string) component {
	return component{Type: "library", Name: path, Version: version, PURL: "pkg:golang/" + path + "@" + url.QueryEscape(version)}
}
