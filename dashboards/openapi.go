package dashboards

import (
	_ "embed"
	"net/http"
)

// openAPI describes the API to programs that make clients of it; docs/api.md does so to people.
//
//go:embed openapi.yaml
var openAPI []byte

func (s *Server) showDocument(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", fileType)
	send(w, openAPI)
	return nil
}
