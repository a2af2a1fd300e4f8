package dashboards

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// web holds the pages. Those below app are built from page by scripts/build-page.sh.
//
//go:embed web
var web embed.FS

// loadPage reads the page and adds the path of a proxy.
func (s *Server) loadPage() error {
	page, err := web.ReadFile("web/app/index.html")
	if err != nil {
		return err
	}
	s.page = []byte(s.external.inPage(string(page)))
	return nil
}

// showPage serves the page, which is the same for all paths: its script reads the path and
// asks the API.
func (s *Server) showPage(w http.ResponseWriter, r *http.Request) error {
	http.ServeContent(w, r, "index.html", time.Time{}, bytes.NewReader(s.page))
	return nil
}

// builtFile serves a part of the page. Its name has a digest of its content, so that
// browsers may cache it.
func builtFile(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeFileFS(w, r, web, "web/app/"+r.PathValue("file"))
	return nil
}

func asset(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, web, "web/assets/"+r.PathValue("file"))
	return nil
}

// License is the licence of a package in the page.
type License struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Identifier is the SPDX identifier: "MIT".
	Identifier string `json:"identifier"`
	Text       string `json:"text"`
}

// Licenses returns the licences of the packages in the page, as listed by its build.
func Licenses() ([]License, error) {
	list, err := web.ReadFile("web/app/licenses.json")
	if err != nil {
		return nil, err
	}
	var licenses []License
	if err := json.Unmarshal(list, &licenses); err != nil {
		return nil, fmt.Errorf("web/app/licenses.json: %w", err)
	}
	return licenses, nil
}
