package dashboards

import (
	"bytes"
	"embed"
	"net/http"
	"time"
)

// web holds the pages. Those below app are built of ../page by scripts/build-page.sh.
//
//go:embed web
var web embed.FS

// loadPage reads the page and puts the path of a proxy into it.
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
