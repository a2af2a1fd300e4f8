package dashboards

import (
	"embed"
	"net/http"
)

// web holds the pages. Those below app are built of ../page by scripts/build-page.sh.
//
//go:embed web
var web embed.FS

// showPage serves the page, which is the same for all paths: its script reads the path and
// asks the API.
func showPage(w http.ResponseWriter, r *http.Request) error {
	http.ServeFileFS(w, r, web, "web/app/index.html")
	return nil
}

// builtFile serves a part of the page. Its name has a digest of what it holds, so that
// browsers may keep it.
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
