package dashboards

import (
	"embed"
	"net/http"
)

// web holds the pages: HTML and scripts as they are, without a build step.
//
//go:embed web
var web embed.FS

// page serves a file that is the same for all: its script asks the API.
func page(name string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		http.ServeFileFS(w, r, web, "web/"+name)
		return nil
	}
}

func asset(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, web, "web/assets/"+r.PathValue("file"))
	return nil
}
